"""Mutual information between features and a label, read on data that the critic has not seen, with its interval.

For any critic q(c | z),

    I(Z; Y) = H(Y) - H(Y | Z) >= E[ log q(y | z) - log p(y) ],

with equality when q is the truth. The mean of the terms t_i = log q(y_i | z_i) - log p(y_i) over data that
did not take part in fitting q is therefore an honest lower bound up to sampling noise, which each
sample's own term shows. Read on its fitting data, a flexible critic memorises and shows H(Y) for
anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from residua.errors import InputError
from residua.measure.information.coordinates import canonical
from residua.measure.information.families import PARTS, half_of, pooled_scores, read_family
from residua.measure.information.samples import FEWEST, check_labels, entropy, frequencies, stratified_folds
from residua.readings import Z95
from residua.training.loop import seeded


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


@dataclass(frozen=True)
class Information:
    """I(Z; Y) in nats.

    `value` is the mean of `terms`, one per sample: a lower bound, up to sampling noise. `shortfall` estimates what
    critics with more data would add, and `interval` is a 95 % interval around value + shortfall.
    records/calibration has the coverage of such intervals.
    """

    value: float
    interval: tuple[float, float]
    ceiling: float
    shortfall: float
    accuracy: float
    terms: np.ndarray = field(repr=False)


def mutual_information(
    features: np.ndarray | Tensor, labels: np.ndarray | Tensor, *, folds: int = 4, seed: int = 0
) -> Information:
    """I(Z; Y) of any features (N, ...) and whole-number labels (N), by the `nonlinear` family of critics.

    `InformationCurve` does the same with the pooled features of a block: equal coordinates, critics, folds,
    weights and interval.

    Args:
        features: One row per sample; further axes are flattened.
        labels: One whole number per sample.
        folds: Folds of cross-fitting: each sample is read by critics that were fitted on the other folds.
        seed: Seed of folds and critics.
    """
    if not 2 <= folds <= FEWEST:
        raise InputError(f"folds is {folds}, expected 2 to {FEWEST}")
    z = torch.as_tensor(features).detach().cpu()
    if z.ndim < 2:
        raise InputError(f"features have shape {tuple(z.shape)}, expected one row for each sample")
    z = z.flatten(1)
    y = check_labels(torch.as_tensor(labels).detach().cpu(), len(z))
    if not z.is_floating_point():
        z = z.float()
    if not torch.isfinite(z).all():
        raise InputError("the features hold NaN or infinite values; give finite numbers")
    z = canonical(z)(z if z.dtype == torch.float64 else z.float()).float()
    prior = frequencies(y)
    parts = PARTS["nonlinear"]
    # Scores of unseen samples by critics that were fitted on all of the other folds, and on half as many samples.
    with seeded(seed):
        fold = stratified_folds(y, folds)
        whole: dict[str, Tensor] = {}
        half: dict[str, Tensor] = {}
        for k in range(folds):
            inside, outside = (fold != k).nonzero()[:, 0], (fold == k).nonzero()[:, 0]
            _put(whole, pooled_scores(z, y, inside, outside, prior, parts), outside, len(y))
            _put(half, pooled_scores(z, y, half_of(y, inside), outside, prior, parts), outside, len(y))
    read = read_family("nonlinear", {1: whole}, y, fold, prior)[1]
    fewer = read_family("nonlinear", {1: half}, y, fold, prior)[1]
    terms = read.terms.numpy()
    low, high, shortfall = interval(terms[None], fewer.terms.numpy(), entropy(prior))
    accuracy = float(((read.scores + prior.log()).argmax(1) == y).double().mean())
    return Information(float(terms.mean()), (low, high), entropy(prior), shortfall, accuracy, terms.astype(np.float32))


def _put(scores: dict[str, Tensor], of_fold: dict[str, Tensor], where: Tensor, n: int) -> None:
    for part, own in of_fold.items():
        if part not in scores:
            scores[part] = own.new_empty(len(own), n, own.shape[2])
        scores[part][:, where] = own
