"""Divergences between the outputs of two models: JSD, the paper's JSD, ZRF."""

from __future__ import annotations

import math

import numpy as np

from residua.errors import InputError
from residua.readings import Reading

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
    terms = -(_sum(np.exp(p), _over(p, q)) + _sum(np.exp(q), _over(q, p))) / 2
    return float(np.clip(terms, 0.0, math.log(2)).mean())


def jsd_paper(left: np.ndarray, right: np.ndarray) -> float:
    """The divergence in the scale of the paper's tables: KL(m || p) / 2 + KL(m || q) / 2, unbounded.

    The tables show values above ln 2, out of reach of the printed formula. With the arguments of KL
    exchanged, as in the public code of Bad-T, and summed over classes, they fit.
    """
    p, q = _checked(left, right)
    m = (np.exp(p) + np.exp(q)) / 2
    return float(((_sum(m, _over(p, q)) + _sum(m, _over(q, p))) / 2).clip(min=0.0).mean())


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
            raise InputError(
                "log-probabilities must belong to probabilities that sum to 1; take a log softmax"
            )
    return p, q


def _over(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """log m - log p = log( (1 + q / p) / 2 ): exactly 0 where p = q."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp(0.0, q - p) - math.log(2)


def _sum(mass: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """The sum over classes of mass times log; 0 log 0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(mass > 0, mass * logs, 0.0).sum(axis=1)
