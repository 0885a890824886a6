"""Distances between the insides of two models: features (CKA) and weights."""

from __future__ import annotations

import numpy as np

from residua.errors import InputError
from residua.readings import Reading
from residua.text import whole_number


def linear_cka(left: np.ndarray, right: np.ndarray) -> float | None:
    """Linear centred kernel alignment of two sets of features (n, d) of the same samples.

        CKA = |Y^T X|_F^2 / ( |X^T X|_F |Y^T Y|_F ),   X, Y centred

    1: equal up to rotation and scale; 0: uncorrelated. None where one of them does not vary.
    """
    x, y = (np.asarray(z, np.float64) for z in (left, right))
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(f"features of {x.shape} and {y.shape} cannot be compared; give the same samples")
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    own = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    if len(x) < 2 or own <= 1e-30:
        return None
    return float(np.clip(np.linalg.norm(y.T @ x) ** 2 / own, 0.0, 1.0))


def cka(left: Reading, right: Reading, name: str = "CKA") -> Reading:
    """`NAME.SIDE.l`: linear CKA of block l, for two readings of `measure.Representation`.

    Forget samples and retain samples are compared separately: forgetting should change the first only.
    """
    values, notes = {}, {}
    for side in ("forget", "retain"):
        mine, theirs = (each.arrays.get(f"{side}.index") for each in (left, right))
        if mine is None or theirs is None:
            raise InputError("a compact record keeps no pooled features; compare the models in their store")
        if not np.array_equal(mine, theirs):
            raise InputError(
                "two representations cannot be compared: they are of other samples; measure both on one task"
            )
        keys = [
            key
            for key in {**left.arrays, **right.arrays}
            if key.startswith(f"{side}.") and whole_number(key.rpartition(".")[2]) is not None
        ]
        for key in keys:
            if key not in left.arrays or key not in right.arrays:
                notes[f"{name}.{key}"] = "only one of the two networks has this block"
                continue
            alignment = linear_cka(left.arrays[key], right.arrays[key])
            if alignment is None:
                notes[f"{name}.{key}"] = "the features of one model do not vary over the samples"
            else:
                values[f"{name}.{key}"] = alignment
    return Reading(values, notes=notes)


def weight_distance(left: Reading, right: Reading, name: str = "weight_distance") -> Reading:
    """|w_left - w_right|, of everything and of each part, from two readings of `measure.WeightSketch`.

    A part that has another size in the other network, or is not there, is left out by name, and so is the distance of
    everything.
    """
    if not np.array_equal(left.arrays["fold"], right.arrays["fold"]):
        raise InputError("weight sketches of other settings cannot be compared; measure both models alike")
    squares: dict[str, float] = {}
    notes: dict[str, str] = {}
    for part in (
        key.removeprefix("part.") for key in {**left.arrays, **right.arrays} if key.startswith("part.")
    ):
        size = f"size.{part}"
        if size not in left.arrays or size not in right.arrays or left.arrays[size] != right.arrays[size]:
            notes[f"{name}.{part}"] = "the two networks have weights of another size there"
            continue
        squares[part] = float(((left.arrays[f"part.{part}"] - right.arrays[f"part.{part}"]) ** 2).sum())
    values = {f"{name}.{part}": float(np.sqrt(square)) for part, square in squares.items()}
    if notes:
        notes[name] = "the two models are not of one architecture, so their weights cannot be subtracted"
    else:
        values = {name: float(np.sqrt(sum(squares.values())))} | values
    return Reading(values, notes=notes)
