"""Comparisons of accuracies: gaps, AUS, class by class."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from residua.errors import InputError
from residua.explaining import HEAD, NEARER, Explanation
from residua.readings import Reading

EXPLANATIONS = (
    Explanation(
        name="class_change",
        title="Change of accuracy class by class",
        box="black",
        definition=(
            "Which neighbours of the forgotten data were damaged; `.worst` is the most damaged "
            "retained class."
        ),
        formula="accuracy_c(model) - accuracy_c(Original)",
        range="[-1, 1]",
        better=NEARER,
        ideal="Retrain's: about 0 for retained classes.",
        blind="Damage that does not change answers on the test data.",
        source="Ours.",
        measures=("class-accuracy",),
        against=("original",),
        parts="classes",
    ),
    Explanation(
        name="gap",
        title="Average gap",
        aliases=("avg gap", "average gap"),
        box="black",
        definition=(
            "How far the answers are from the reference's, over UA, RA, TA and E-MIA (those that "
            "were measured)."
        ),
        formula="mean of |value - value(reference)|",
        range="[0, 1]",
        better="lower",
        ideal="0.",
        blind=HEAD,
        elsewhere="Avg. Gap; often in per cent, and with other metrics in the mean.",
        source="Liu et al. 2024 (l1-sparse); Fan et al. 2023 (SalUn).",
        measures=("accuracy", "mia"),
        against=("reference",),
    ),
    Explanation(
        name="AUS",
        title="Adaptive unlearning score",
        box="black",
        unit="number",
        definition="Kept test accuracy and lost forget accuracy in one number.",
        formula=(
            "(1 - (TA(Original) - TA)) / (1 + D);  D = FTA when classes are forgotten, |A_forget - "
            "TA| when samples are"
        ),
        range="[0, 2], 1 when nothing is lost and all is forgotten",
        better="higher",
        ideal="1; the reference's where its TA differs from Original's.",
        blind=HEAD + " It can hide a loss of utility behind forgetting, and the reverse.",
        source="Cotogni et al. 2023 (DUCK).",
        measures=("accuracy", "class-accuracy"),
        against=("original",),
    ),
)


def gaps(unlearned: Mapping[str, float], reference: Mapping[str, float]) -> dict[str, float]:
    """value(unlearned) - value(reference) of every name that both have; 0 is best, the sign says which side."""
    return {name: unlearned[name] - reference[name] for name in unlearned if name in reference}


def average_gap(unlearned: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """The mean of |gap| over UA, RA, TA and E-MIA, as far as both have them: 0 is best."""
    gap = gaps(unlearned, reference)
    chosen = [abs(gap[name]) for name in ("UA", "RA", "TA", "E-MIA") if name in gap]
    if not chosen:
        raise InputError(
            "two models cannot be compared: they share none of UA, RA, TA and E-MIA; measure them"
        )
    return float(np.mean(chosen))


def aus(*, test: float, original_test: float, forgotten: float, scenario: str) -> float:
    """Adaptive unlearning score, (1 - (A_original - A_test)) / (1 + D): higher is better.

    A are accuracies on the (retained) test data. D is the accuracy on the test data of the forgotten
    classes or, when samples were forgotten, |accuracy on the forget set - A_test|.
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
    notes = {
        f"class_change.{c}": f"the test data hold no image of class {c}" for c in np.flatnonzero(~tested)
    }
    return Reading(values, notes=notes)
