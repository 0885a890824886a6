"""All metrics of one model: its own readings, and its comparisons with Original and the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import numpy as np

from residua.compare.accuracies import ain, aus, average_gap, class_changes, relearn_time
from residua.compare.divergence import cka, divergences, weight_distance, zrf, zrf_paper
from residua.compare.information import IDI, idi
from residua.compare.likelihood_ratio import offline_attacks
from residua.compare.rivals import agreement, knowledge_retention, layer_probes, representation_score
from residua.compare.three_samples import ThreeSample, aggregated_three_sample, three_sample
from residua.errors import InputError
from residua.readings import Curve, Reading
from residua.record import Record

Readings = Mapping[str, Reading]


def metrics(
    model: Readings, *, original: Readings | None = None, reference: Readings | None = None, index: IDI | None = None
) -> Reading:
    """Every metric that follows from the readings of one model and of the two others.

    Metrics that need a missing model or a missing measure are left out. A part of a
    metric comes after a dot: a block, a class, a quality of the attacker.

    Args:
        model: Readings of the model, by the measure's label.
        original: Readings of the model before unlearning.
        reference: Readings of a model that was retrained without the forgotten data.
        index: The model's IDI, if it is known: its interval takes as long as everything else together.
    """
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for reading in model.values():
        idle = without_credit(reading)
        values |= {name: value for name, value in reading.metrics().items() if name not in idle}
        # A curve's notes are warnings about values that are there, not reasons for values that are not.
        notes |= idle if isinstance(reading, Curve) else dict(reading.notes) | idle
    for compared in _compared(model, original or {}, reference or {}, index):
        values |= compared.values
        notes |= compared.notes
    return Reading(values, notes=notes)


def _compared(model: Readings, original: Readings, reference: Readings, index: IDI | None) -> list[Reading]:
    compared: list[Reading] = []

    def compare(name: str, label: str, others: tuple[Readings, ...], how: Callable[..., Reading]) -> None:
        if all(label in readings for readings in (model, *others)):
            try:
                compared.append(how(model[label], *(other[label] for other in others)))
            except InputError as error:  # the models differ there: this metric is left out by name, not the others
                compared.append(Reading({}, notes={name: str(error)}))

    if "random" in getattr(model.get("outputs"), "arrays", {}):
        outputs = model["outputs"].arrays
        pair = outputs["log_probabilities"], outputs["random"]
        compared.append(Reading({"ZRF": zrf(*pair), "ZRF_paper": zrf_paper(*pair)}))
    compare("JSD", "outputs", (reference,), divergences)
    compare("activation_distance", "outputs", (reference,), agreement)
    for name, test in (("three_sample", three_sample), ("three_sample_aggregated", aggregated_three_sample)):
        compare(name, "outputs", (reference, original), partial(_on_probabilities, name, test))
    compare("offline_LiRA", "log-odds", (reference,), lambda u, r: offline_attacks(u, [r]))
    compare("KR", "probe", (), knowledge_retention)
    compare("LPR", "probe", (original,), layer_probes)
    compare("RUS", "representation", (original,), representation_score)
    compare("class_change", "class-accuracy", (original,), class_changes)
    compare("RT", "relearning", (original,), relearn_time)
    compare("AIN", "relearning", (original, reference), lambda u, o, r: ain(u, original=o, reference=r))
    for name, other in (("original", original), ("reference", reference)):
        compare(f"CKA.{name}", "representation", (other,), lambda a, b, name=name: cka(a, b, f"CKA.{name}"))
        compare(
            f"weight_distance.{name}",
            "weights",
            (other,),
            lambda a, b, name=name: weight_distance(a, b, f"weight_distance.{name}"),
        )
    compare("IDI", "information", (original, reference), lambda u, o, r: _idi(index or _index(u, o, r)))
    if "accuracy" in model and "accuracy" in original and "class-accuracy" in model:
        compared.append(_aus(model, original))
    mine, theirs = _accuracies(model), _accuracies(reference)
    if {"UA", "RA", "TA", "E-MIA"} & mine.keys() & theirs.keys():
        compared.append(Reading({"gap": average_gap(mine, theirs)}))
    return compared


def _on_probabilities(name: str, test: Callable[..., ThreeSample | float], *read: Reading) -> Reading:
    """The p-value of a test on probabilities; of two, the one for the reference."""
    found = test(*(np.exp(np.asarray(each.arrays["log_probabilities"], np.float64)) for each in read))
    return Reading({name: found.p_reference if isinstance(found, ThreeSample) else found})


def _index(unlearned: Reading, original: Reading, reference: Reading) -> IDI:
    u, o, r = (cast(Curve, reading) for reading in (unlearned, original, reference))
    return idi(u, original=o, reference=r)


def _idi(index: IDI) -> Reading:
    if index.value is None or index.interval is None:  # no scale to measure on; the nats themselves are known
        return Reading({"ID": index.id_unlearned}, notes={"IDI": index.reason})
    values = {"IDI": index.value, "IDI.low": index.interval[0], "IDI.high": index.interval[1]}
    return Reading(values | {"IDI.positive": index.positive or 0.0, "ID": index.id_unlearned})


def _aus(model: Readings, original: Readings) -> Reading:
    accuracies = model["accuracy"].values
    by_class = model["class-accuracy"]
    scenario = "random" if by_class.arrays["retained"].all() else "class"
    if scenario == "class" and "FTA" not in by_class.values:
        return Reading({}, notes={"AUS": by_class.notes["FTA"]})
    forgotten = by_class.values["FTA"] if scenario == "class" else 1 - accuracies["UA"]
    before = original["accuracy"].values["TA"]
    return Reading({"AUS": aus(test=accuracies["TA"], original_test=before, forgotten=forgotten, scenario=scenario)})


def _accuracies(readings: Readings) -> dict[str, float]:
    return {
        name: value
        for label in ("accuracy", "mia")
        if label in readings
        for name, value in readings[label].values.items()
        if name not in without_credit(readings[label])
    }


# Held-out images of an attack whose reading does not say how many there were.
HELD = 300
Z = 1.644854  # one-sided, 5 %


def above_chance(accuracy: float, n: int) -> bool:
    """True if this accuracy on n held-out examples, half of them members, is above 0.5 (one-sided, 5 %)."""
    return accuracy - 0.5 > Z * math.sqrt(0.25 / n)


def without_credit(reading: Reading) -> dict[str, str]:
    """The attacks of this reading that are no better than chance, with a note that says so."""
    notes = {}
    for name, accuracy in reading.values.items():
        attack = name.removesuffix(".accuracy")
        if attack == name or attack not in reading.values or not attack.endswith("MIA"):
            continue
        n = int(reading.arrays.get(f"{attack}.held", np.array(HELD)))
        if not above_chance(accuracy, n):
            notes[attack] = (
                f"the attacker is right on {100 * accuracy:.0f} % of {n} held-out images, no better than chance, so its "
                f"{100 * reading.values[attack]:.1f} % say nothing"
            )
    return notes


def readings_of(record: Record) -> dict[str, Reading]:
    """The readings that a record keeps, by their measure's label."""
    return {label: record.read_with(label) for label in record.readings}


def curve_in(readings: Mapping[str, Reading]) -> Curve | None:
    """The information curve among the readings of one model, whatever its measure is called."""
    return next((reading for reading in readings.values() if isinstance(reading, Curve)), None)


def curve_of(record: Record) -> Curve:
    """The information curve that a record keeps."""
    curve = curve_in(readings_of(record))
    if curve is None:
        raise InputError(f"record {record.name} holds no information curve; measure one first")
    return curve
