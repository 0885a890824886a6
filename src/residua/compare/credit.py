"""Credit: whether an attack is good enough for its answer to mean anything."""

from __future__ import annotations

import math

import numpy as np

from residua.readings import Reading

# Held-out images of an attack whose reading does not say how many there were.
HELD = 300
Z = 1.644854  # one-sided, 5 %


def above_chance(accuracy: float, n: int) -> bool:
    """Is this accuracy on n held-out examples, half of them members, above 0.5 at the level 0.05 (one-sided)?"""
    return accuracy - 0.5 > Z * math.sqrt(0.25 / n)


def without_credit(reading: Reading) -> dict[str, str]:
    """The attacks of this reading that are not better than chance, and why their values say nothing."""
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


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    """95 % interval of an AUC (Hanley and McNeil), from how many scores there were on either side."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (positives - 1) * (q1 - auc**2) + (negatives - 1) * (q2 - auc**2)
    half = 1.959964 * math.sqrt(max(spread, 1e-12) / (positives * negatives))
    return max(auc - half, 0.0), min(auc + half, 1.0)
