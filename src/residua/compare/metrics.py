"""All metrics of one model: what was read of it, and how it compares with Original and the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from residua.compare.accuracies import aus, average_gap, class_changes
from residua.compare.distance import cka, weight_distance
from residua.compare.divergence import divergences, zrf
from residua.compare.idi import IDI, idi
from residua.compare.relearn import ain, relearn_time
from residua.curve import Curve
from residua.reading import Reading

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
    metric stands behind a dot: a block, a class, a quality of the attacker. Who has the model's IDI already
    gives it as `index`: its interval takes as long as everything else together.
    """
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for reading in model.values():
        values |= _curve(reading) if isinstance(reading, Curve) else dict(reading.values)
        notes |= reading.notes
    for compared in _compared(model, original or {}, reference or {}, index):
        values |= compared.values
        notes |= compared.notes
    return Reading(values, notes=notes)


def _compared(model: Readings, original: Readings, reference: Readings, index: IDI | None) -> list[Reading]:
    found: list[Reading] = []

    def compare(label: str, others: tuple[Readings, ...], how: Callable[..., Reading]) -> None:
        if all(label in readings for readings in (model, *others)):
            found.append(how(model[label], *(other[label] for other in others)))

    if "random" in getattr(model.get("outputs"), "arrays", {}):
        said = model["outputs"].arrays
        found.append(Reading({"ZRF": zrf(said["log_probabilities"], said["random"])}))
    compare("outputs", (reference,), divergences)
    compare("class-accuracy", (original,), class_changes)
    compare("relearning", (original,), relearn_time)
    compare("relearning", (original, reference), lambda u, o, r: ain(u, original=o, reference=r))
    for name, other in (("original", original), ("reference", reference)):
        compare("representation", (other,), lambda a, b, name=name: cka(a, b, f"CKA.{name}"))
        compare("weights", (other,), lambda a, b, name=name: weight_distance(a, b, f"weight_distance.{name}"))
    compare("information", (original, reference), lambda u, o, r: _idi(index or _index(u, o, r)))
    if "accuracy" in model and "accuracy" in original and "class-accuracy" in model:
        found.append(_aus(model, original))
    mine, theirs = _accuracies(model), _accuracies(reference)
    if mine and theirs:
        found.append(Reading({"gap": average_gap(mine, theirs)}))
    return found


def _curve(curve: Curve) -> dict[str, float]:
    return {f"MI.{block}": value for block, value in curve.information.items()}


def _index(unlearned: Reading, original: Reading, reference: Reading) -> IDI:
    u, o, r = (cast(Curve, reading) for reading in (unlearned, original, reference))
    return idi(u, original=o, reference=r)


def _idi(found: IDI) -> Reading:
    if found.value is None or found.interval is None:
        return Reading({}, notes={"IDI": found.reason})
    return Reading({"IDI": found.value, "IDI.low": found.interval[0], "IDI.high": found.interval[1]})


def _aus(model: Readings, original: Readings) -> Reading:
    said = model["accuracy"].values
    by_class = model["class-accuracy"]
    scenario = "random" if by_class.arrays["retained"].all() else "class"
    if scenario == "class" and "FTA" not in by_class.values:
        return Reading({}, notes={"AUS": by_class.notes["FTA"]})
    forgotten = by_class.values["FTA"] if scenario == "class" else 1 - said["UA"]
    before = original["accuracy"].values["TA"]
    return Reading(
        {"AUS": aus(test=said["TA"], original_test=before, forgotten=forgotten, scenario=scenario)}
    )


def _accuracies(readings: Readings) -> dict[str, float]:
    return {
        name: value
        for label in ("accuracy", "mia")
        if label in readings
        for name, value in readings[label].values.items()
    }
