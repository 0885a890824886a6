"""How far arrays of two records are apart: what numbers in a report are computed from, beside the readings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from residua.record import Record

# How long critics were fitted: another machine may take a round more, and no number in a report comes from it.
# Where points of a t-SNE picture are: its last digits grow from step to step, and the picture has no vote.
NOT_COMPARED = {"information.course", "tsne.coordinates"}


def array_moves(then: Mapping[str, Record], now: Mapping[str, Record], tolerance: float) -> list[str]:
    """Arrays that differ beyond the tolerance.

    Single entries move more between machines than their means do, and a verdict rests on means. So the distance of
    two arrays is the mean of |x - y| over the last axis, at most, as a share of the mean of |x| where that is above 1;
    of whole numbers and truth values, the share that differs.
    """
    moved = []
    for role, record in then.items():
        others = now[role].arrays
        for name in sorted((record.arrays.keys() | others.keys()) - NOT_COMPARED):
            where = f"array {name} of {role}"
            if name not in record.arrays or name not in others:
                moved.append(
                    f"{where} is {'missing' if name not in record.arrays else 'there'}, but measuring again "
                    f"{'gives it' if name in others else 'does not give it'}"
                )
                continue
            x, y = record.arrays[name], others[name]
            if x.shape != y.shape or x.dtype.kind != y.dtype.kind:
                moved.append(f"{where} is {x.dtype} {x.shape}, but was measured again as {y.dtype} {y.shape}")
            elif not (apart := distance(x, y)) <= tolerance:  # NaN is not close to anything
                moved.append(f"{where} was measured again as values that are {apart:.2g} away in the mean")
    return moved


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """How far two arrays of one shape are apart, as `array_moves` says."""
    if not x.size or np.array_equal(x, y):
        return 0.0
    if x.dtype.kind not in "fc":
        return float((x != y).mean())
    a, b = (
        np.atleast_1d(values).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        for values in (x, y)
    )
    # Equal infinities are no distance apart.
    apart = np.where(a == b, 0.0, np.abs(a - b))
    size = np.where(np.isfinite(a), np.abs(a), 0.0)
    return float((apart.mean(axis=-1) / np.maximum(1.0, size.mean(axis=-1))).max())


def same_arrays(then: Record, now: Record) -> bool:
    """Whether all arrays are equal to the last bit."""
    return then.arrays.keys() == now.arrays.keys() and all(
        np.array_equal(array, now.arrays[name]) for name, array in then.arrays.items()
    )
