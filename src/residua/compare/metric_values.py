"""All metrics of one model: what was read of it, and how it compares with Original and the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from residua.compare.accuracies import aus, average_gap, class_changes
from residua.compare.credit import without_credit
from residua.compare.distance import cka, weight_distance
from residua.compare.divergence import divergences, zrf
from residua.compare.information import IDI, idi
from residua.compare.relearn import ain, relearn_time
from residua.errors import InputError
from residua.readings import Curve, Reading

Readings = Mapping[str, Reading]


def metrics(
    model: Readings,
    *,
    original: Readings | None = None,
    reference: Readings | None = None,
    index: IDI | None = None,
) -> Reading:
    """Every value that follows from the readings (by measure's label) of one model and of the two others.

    What needs a model that is not there, or a measure that was not made, is left out. A part of a
    metric comes after a dot: a block, a class, a quality of the attacker. If you have the model's IDI already,
    give it as `index`: its interval takes as long as everything else together.
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
            except (
                InputError
            ) as error:  # the models differ there: this metric is left out by name, not the others
                compared.append(Reading({}, notes={name: str(error)}))

    if "random" in getattr(model.get("outputs"), "arrays", {}):
        outputs = model["outputs"].arrays
        compared.append(Reading({"ZRF": zrf(outputs["log_probabilities"], outputs["random"])}))
    compare("JSD", "outputs", (reference,), divergences)
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
    return Reading(
        {"AUS": aus(test=accuracies["TA"], original_test=before, forgotten=forgotten, scenario=scenario)}
    )


def _accuracies(readings: Readings) -> dict[str, float]:
    return {
        name: value
        for label in ("accuracy", "mia")
        if label in readings
        for name, value in readings[label].values.items()
        if name not in without_credit(readings[label])
    }
