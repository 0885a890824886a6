"""Intervals of I(Z; Y): the finite number of samples, what critics with more data would add, and restarts."""

from __future__ import annotations

import math

import numpy as np

Z95 = 1.959964


def interval(terms: np.ndarray, fewer: np.ndarray, ceiling: float) -> tuple[float, float, float]:
    """A 95 % interval from terms (restarts, n) and the terms (n) of critics fitted on half as many samples.

    What a critic misses falls like 1/n in the number n of samples that it was fitted on, so what is still missing,
    the shortfall, is what the last doubling of n has gained; the interval is centred on value + shortfall.
    Returns low, high, shortfall; low <= value <= high, within [0, H(Y)].
    """
    mean = terms.mean(axis=0)
    value = float(mean.mean())
    shortfall = max(value - float(fewer.mean()), 0.0)
    low, high = skewed(2 * mean - fewer if shortfall else mean)
    restarts = terms.mean(axis=1)
    if len(restarts) > 1:
        extra = Z95 * float(restarts.std(ddof=1)) / math.sqrt(len(restarts))
        centre = (low + high) / 2
        low, high = centre - math.hypot(centre - low, extra), centre + math.hypot(high - centre, extra)
    low = min(max(min(low, value), 0.0), ceiling)
    high = min(max(high, value, 0.0), ceiling)
    return low, high, shortfall


def skewed(terms: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the mean, corrected for skewness.

    Few samples of a label carry most of the information, and a draw with few of them has a small mean
    and a small spread at once. So t = (mean - truth) / error is skewed the other way; to first order its
    quantiles are z - k (2 z^2 + 1) / 6 with k the skewness of the mean (Cornish-Fisher, studentised).
    """
    n = len(terms)
    mean, spread = float(terms.mean()), float(terms.std(ddof=1))
    if spread < 1e-12:  # every critic was given the weight 0
        return mean, mean
    error = spread / math.sqrt(n)
    k = float(((terms - mean) ** 3).mean()) / spread**3 / math.sqrt(n)
    shift = k * (2 * Z95**2 + 1) / 6
    # Beyond this the expansion is no longer one; the correction must not turn an end around.
    shift = min(max(shift, -1.0), 1.0)
    return mean - (Z95 - shift) * error, mean + (Z95 + shift) * error


def plain_interval(terms: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % interval of terms (restarts, n): sampling noise, and the spread between restarts."""
    means = terms.mean(axis=1)
    noise = float(terms.mean(axis=0).var(ddof=1)) / terms.shape[1]
    between = float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0
    error = Z95 * math.sqrt(noise + between)
    return float(means.mean()), float(means.mean()) - error, float(means.mean()) + error
