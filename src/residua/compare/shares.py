"""IDI as one number, without its interval: for tables that ask for hundreds of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from residua.compare.information import check_comparable
from residua.errors import InputError
from residua.readings import Curve

Z95 = 1.959964


def idi_value(
    unlearned: Curve,
    *,
    original: Curve,
    reference: Curve,
    last: int | None = None,
    family: str | None = None,
) -> float | None:
    """The value of `idi`; None where ID(original) is not clearly above zero.

    `idi` finds that by resampling, here it is 1.96 standard errors of the mean over samples, which takes no time.
    Curves of other settings or data are refused.
    """
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    u, o, r = (curve.terms(last_blocks(curve, last), family).mean(axis=0) for curve in curves)
    scale = o - r
    if scale.mean() <= Z95 * scale.std(ddof=1) / math.sqrt(len(scale)):
        return None
    return float((u - r).mean() / scale.mean())


def last_blocks(curve: Curve, last: int | None) -> list[int]:
    """The last so many blocks that were measured."""
    if last is not None and not 1 <= last <= len(curve.blocks):
        raise InputError(f"last is {last}, expected 1 to {len(curve.blocks)}: so many blocks were measured")
    return curve.blocks if last is None else curve.blocks[-last:]


def spearman(left: Mapping[str, float], right: Mapping[str, float]) -> tuple[float, int] | None:
    """Rank correlation over the names that both have, and how many those are; None for fewer than three, or no variation."""
    both = [name for name in left if name in right]
    x, y = (np.array([of[name] for name in both]) for of in (left, right))
    if len(both) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy.stats import spearmanr  # takes a while to import

    return float(spearmanr(x, y).statistic), len(both)


def ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Places from the least value, from 1; equal values keep the order in which they come."""
    order: Sequence[str] = sorted(values, key=lambda name: values[name])
    return {name: place for place, name in enumerate(order, start=1)}
