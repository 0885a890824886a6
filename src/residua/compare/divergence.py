"""Distances between two models: outputs (JSD, the paper's JSD, ZRF), features (CKA) and weights."""

from __future__ import annotations

import math

import numpy as np

from residua.errors import InputError
from residua.readings import Reading
from residua.text import whole_number

SUMS_TO_ONE = 1e-4


def jsd(left: np.ndarray, right: np.ndarray) -> float:
    """The mean over samples of the Jensen-Shannon divergence, in nats: 0 (equal) to ln 2.

        JSD = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2

    Args:
        left: Log-probabilities (N, classes) of one model.
        right: Those of the other model, for the same samples.
    """
    # Differs from the paper: this is the printed formula; the paper's tables have another scale, which is `jsd_paper`.
    p, q = _checked(left, right)
    terms = -(_sum(np.exp(p), p, q) + _sum(np.exp(q), q, p)) / 2
    return float(np.clip(terms, 0.0, math.log(2)).mean())


def jsd_paper(left: np.ndarray, right: np.ndarray) -> float:
    """The divergence in the scale of the paper's tables: KL(m || p) / 2 + KL(m || q) / 2, unbounded.

    The tables show values above ln 2, out of reach of the printed formula. With the arguments of KL
    exchanged, as in the public code of Bad-T, and summed over classes, they fit.
    """
    p, q = _checked(left, right)
    m = (np.exp(p) + np.exp(q)) / 2
    return float(((_sum(m, p, q) + _sum(m, q, p)) / 2).clip(min=0.0).mean())


def zrf(model: np.ndarray, random: np.ndarray) -> float:
    """Zero retrain forgetting: 1 - JSD(model, random network) in bits, so that it is in [0, 1].

    1: the model answers as a network with random weights does. In nats it could not fall below 0.31.
    """
    # Differs from the reference: this is the JSD in bits. The public code (vikram2000b/bad-teaching-unlearning, metrics.py)
    # exchanges the arguments of KL and takes the mean over classes too: it has 1 - JSD_paper / classes, which is nearer to 1.
    return 1 - jsd(model, random) / math.log(2)


def zrf_paper(model: np.ndarray, random: np.ndarray) -> float:
    """ZRF as the public code of Bad-T computes it: 1 - `jsd_paper` / classes, because it averages over classes too."""
    return 1 - jsd_paper(model, random) / np.asarray(model).shape[1]


def divergences(unlearned: Reading, reference: Reading) -> Reading:
    """JSD and JSD_paper of two readings of `measure.ForgetOutputs`."""
    outputs = [reading.arrays["log_probabilities"] for reading in (unlearned, reference)]
    return Reading({"JSD": jsd(*outputs), "JSD_paper": jsd_paper(*outputs)})


def _checked(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.asarray(left, np.float64), np.asarray(right, np.float64)
    if p.shape != q.shape or p.ndim != 2 or not len(p):
        raise InputError(
            f"log-probabilities of {p.shape} and {q.shape} cannot be compared; "
            "give those of two models for the same samples"
        )
    for log_p in (p, q):
        if np.isnan(log_p).any() or np.abs(np.exp(log_p).sum(axis=1) - 1).max() > SUMS_TO_ONE:
            raise InputError("log-probabilities must belong to probabilities that sum to 1; take a log softmax")
    return p, q


def _sum(mass: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The sum over classes of mass times log m - log p, from log-probabilities; 0 log 0 = 0."""
    with np.errstate(invalid="ignore"):
        logs = np.logaddexp(0.0, q - p) - math.log(2)  # log( (1 + q / p) / 2 ): exactly 0 where p = q
        return np.where(mass > 0, mass * logs, 0.0).sum(axis=1)


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
    for part in (key.removeprefix("part.") for key in {**left.arrays, **right.arrays} if key.startswith("part.")):
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
