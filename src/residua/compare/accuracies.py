"""Comparisons of accuracies: the average gap, AUS, class by class, relearn time, and guards against runs that failed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from residua.errors import InputError
from residua.readings import Reading


def average_gap(unlearned: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """The mean of |gap| over UA, RA, TA and E-MIA, as far as both have them: 0 is best."""
    both = [name for name in ("UA", "RA", "TA", "E-MIA") if name in unlearned and name in reference]
    chosen = [abs(unlearned[name] - reference[name]) for name in both]
    if not chosen:
        raise InputError("two models cannot be compared: they share none of UA, RA, TA and E-MIA; measure them")
    return float(np.mean(chosen))


def aus(*, test: float, original_test: float, forgotten: float, scenario: str) -> float:
    """Adaptive unlearning score, (1 - (A_original - A_test)) / (1 + D): higher is better.

    D is the accuracy on the test data of the forgotten classes or, when samples were forgotten,
    |accuracy on the forget set - A_test|.

    Args:
        test: Accuracy on the (retained) test data.
        original_test: Original's.
        forgotten: Accuracy on the test data of the forgotten classes, or on the forget set.
        scenario: `class` or `random`.
    """
    for name, value in {"test": test, "original_test": original_test, "forgotten": forgotten}.items():
        if not 0 <= value <= 1:
            raise InputError(f"{name} is {value}, expected an accuracy in [0, 1]")
    distance = forgotten if scenario == "class" else abs(forgotten - test)
    return (1 - (original_test - test)) / (1 + distance)


def class_changes(unlearned: Reading, original: Reading) -> Reading:
    """accuracy(unlearned) - accuracy(original) on the test data of every class.

    From two readings of `measure.ClassAccuracy`. `class_change.worst` is the lowest among the classes
    that should be kept: the most damaged neighbour.
    """
    count = unlearned.arrays["count"]
    if not np.array_equal(count, original.arrays["count"]):
        raise InputError(
            "two class accuracies cannot be compared: they are of other test data; measure both on one task"
        )
    change = (unlearned.arrays["right"] - original.arrays["right"]) / np.maximum(count, 1)
    tested = count > 0
    values = {f"class_change.{c}": float(change[c]) for c in np.flatnonzero(tested)}
    values["class_change.worst"] = float(change[tested & unlearned.arrays["retained"]].min())
    notes = {f"class_change.{c}": f"the test data hold no image of class {c}" for c in np.flatnonzero(~tested)}
    return Reading(values, notes=notes)


WITHIN = 0.05


def relearn_time(unlearned: Reading, original: Reading, *, within: float = WITHIN) -> Reading:
    """RT: mini-batches until the forget accuracy is at least (1 - within) of Original's; 0: it is already.

    If the course ends earlier, there is no value, and the note says how long it was.
    """
    goal = (1 - within) * original.values["relearning.before"]
    course = unlearned.arrays["course"]
    reached = (course >= goal).nonzero()[0]
    if len(reached):
        return Reading({"RT": float(reached[0])})
    return Reading({}, notes={"RT": f"not relearned within {len(course) - 1} mini-batches"})


def ain(unlearned: Reading, *, original: Reading, reference: Reading, within: float = WITHIN) -> Reading:
    """Anamnesis index, RT(unlearned) / RT(reference): 1 is ideal, below 1 traces are left."""
    times = {
        name: relearn_time(course, original, within=within)
        for name, course in (("the model", unlearned), ("the reference", reference))
    }
    for name, time in times.items():
        if time.notes:
            return Reading({}, notes={"AIN": f"{name} was {time.notes['RT']}"})
    below = times["the reference"].values["RT"]
    if not below:
        return Reading({}, notes={"AIN": "the reference knows the forgotten data before any relearning"})
    return Reading({"AIN": times["the model"].values["RT"] / below})


# Class-wise the aim is a UA of 1; a run that went less than this fraction of the way did nothing.
WAY = 0.1
# An Original whose UA is within this of 1 knew nothing that could be forgotten.
NEAR_ONE = 0.02
# A model that lost more than this on what it should keep is not worth auditing.
LOST = 0.10


def guards(
    unlearned: Mapping[str, float],
    original: Mapping[str, float],
    *,
    scenario: str,
    samples: int,
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """Warnings about a run that obviously failed, each with advice; empty for a good run, or if UA, RA or TA is unknown.

    Looks at UA, RA and TA of the unlearned model and of Original. "Nothing happened": UA did not rise by a
    tenth of the way to 1 (`scenario` class) or, where good methods move it by a few per cent (random), by the
    standard error that Original's UA has on so many forget `samples`. "Collapsed": RA or TA fell far below
    Original's. `settings` names, for the advice, the method's settings of which "more" or "less" unlearns more
    (`training.settings.directions`); None where they are not known.
    """
    warnings: list[str] = []
    if not {"UA", "RA", "TA"} <= unlearned.keys() & original.keys():
        return warnings
    least = WAY * (1 - original["UA"]) if scenario == "class" else standard_error(original["UA"], samples)
    if unlearned["UA"] - original["UA"] < least and original["UA"] < 1 - NEAR_ONE:
        warnings.append(
            f"nothing happened: UA is {unlearned['UA']:.1%}, Original's {original['UA']:.1%}; "
            + _advice(settings, more=True)
        )
    lost = {name: original[name] - unlearned[name] for name in ("RA", "TA")}
    if max(lost.values()) > LOST:
        worst = max(lost, key=lambda name: lost[name])
        warnings.append(
            f"the model collapsed: {worst} is {unlearned[worst]:.1%}, Original's {original[worst]:.1%}; "
            + _advice(settings, more=False)
        )
    return warnings


def standard_error(share: float, n: int) -> float:
    """Standard error of a fraction of n samples, with one success and one failure added, so that 0 is not certain."""
    p = (share * n + 1) / (n + 2)
    return math.sqrt(p * (1 - p) / n)


def _advice(settings: Mapping[str, str] | None, *, more: bool) -> str:
    raised, lowered = ("raise", "lower") if more else ("lower", "raise")
    if settings is None:
        return f"{raised} the learning rate or the epochs"
    for verb, stronger in ((raised, "more"), (lowered, "less")):
        own = [name for name, way in settings.items() if way == stronger]
        if own:
            return f"{verb} {' or '.join([', '.join(own[:-1]), own[-1]] if own[:-1] else own)}"
    return "change its settings"
