"""Mutual information between features and a label, read on data that the critic has not seen.

For any critic q(c | z),

    I(Z; Y) = H(Y) - H(Y | Z) >= E[ log q(y | z) - log p(y) ],

with equality when q is the truth. The mean of the terms t_i = log q(y_i | z_i) - log p(y_i) over data that
did not take part in fitting q is therefore an honest lower bound up to sampling noise, which each
sample's own term tells. Read on its fitting data, a flexible critic memorises and shows H(Y) for
anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from residua.critic import Standardised, cloud_scores, linear_scores, perceptron_scores
from residua.errors import InputError
from residua.training import seeded

FEWEST = 20  # samples of a label
Z95 = 1.959964


@dataclass(frozen=True)
class Information:
    """I(Z; Y) in nats.

    `value` is the mean of `terms`, one a sample: a lower bound, up to sampling noise. What a critic misses falls
    like 1/n in the number n of samples that it was fitted on, so what is still missing, `shortfall`, is
    what the last doubling of n has gained. `interval` is a 95 % interval around value + shortfall. `gap` is
    how much more the critic reads on its fitting data: memorisation. How often the
    interval covers the truth is in records/calibration.
    """

    value: float
    interval: tuple[float, float]
    ceiling: float
    gap: float
    shortfall: float
    accuracy: float
    terms: np.ndarray = field(repr=False)


def mutual_information(
    features: np.ndarray | Tensor, labels: np.ndarray | Tensor, *, folds: int = 5, seed: int = 0
) -> Information:
    """I(Z; Y) of any features (N, ...) and whole-number labels (N).

    The critic is a weighted sum of linear critics, linear critics on squares, and a small
    perceptron; the weights are found on unseen scores too, so that what does not help does not hurt.
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
    prior = frequencies(y)
    with seeded(seed):
        parts = stratified_folds(y, folds)
        whole, half, fitted = [], [], []
        for part in range(folds):
            inside, outside = parts != part, parts == part
            scores = _fit_all(z[inside], y[inside], z, prior)
            whole.append(scores[:, outside])
            fitted.append(scores[:, inside])
            some = inside.nonzero()[:, 0][stratified_folds(y[inside], 2) == 0]
            half.append(_fit_all(z[some], y[some], z[outside], prior))
        terms, accuracy, weights = stacked(in_order(whole, parts), y, parts, prior)
        fewer, _, _ = stacked(in_order(half, parts), y, parts, prior)
    seen = [
        float(log_ratio(combine(scores, w), y[parts != part], prior).mean())
        for part, (scores, w) in enumerate(zip(fitted, weights, strict=True))
    ]
    return summarise(terms, fewer, prior, accuracy, fitted=float(np.mean(seen)))


def in_order(scores: list[Tensor], parts: Tensor) -> Tensor:
    """Scores of each fold's samples (critics, n_fold, |Y|), put where the samples stand."""
    critics, _, labels = scores[0].shape
    found = scores[0].new_empty(critics, len(parts), labels)
    for part, of_part in enumerate(scores):
        found[:, parts == part] = of_part
    return found


def _fit_all(fit: Tensor, y: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    plain, squared = Standardised(fit), Standardised(fit, squares=True)
    scores = [
        linear_scores(plain(fit), y, plain(read), prior),
        linear_scores(squared(fit), y, squared(read), prior),
        perceptron_scores(plain(fit), y, plain(read), prior),
    ]
    if len(prior) > 2:
        scores.append(cloud_scores(plain(fit), y, plain(read), prior))
    return torch.cat(scores)


def frequencies(y: Tensor) -> Tensor:
    """p(c): the share of each label."""
    return torch.bincount(y).double() / len(y)


def entropy(prior: Tensor) -> float:
    """H(Y) in nats: what a perfect critic reads."""
    return float(-(prior * prior.log()).sum())


def stratified_folds(y: Tensor, folds: int) -> Tensor:
    """The fold of each sample: at random, with each label spread evenly."""
    parts = torch.empty(len(y), dtype=torch.int64)
    for label in y.unique():
        where = (y == label).nonzero()[:, 0]
        parts[where[torch.randperm(len(where))]] = torch.arange(len(where)) % folds
    return parts


def combine(scores: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum (n, |Y|) of the scores (critics, n, |Y|)."""
    return torch.einsum("mnc,m->nc", scores, weights)


def log_ratio(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """t_i = log q(y_i | z_i) - log p(y_i)."""
    log_prior = prior.log()
    log_q = F.log_softmax(scores + log_prior, dim=1).gather(1, y[:, None])[:, 0]
    return log_q - log_prior[y]


def stacked(unseen: Tensor, y: Tensor, parts: Tensor, prior: Tensor) -> tuple[Tensor, float, list[Tensor]]:
    """Terms of the weighted critics; the weights for each fold come from the other folds.

    One weight a critic, found by maximising the mean term: a convex problem in as many numbers as
    there are critics. A single critic's weight is its calibration: 0 if it only memorised, so that
    the reading never falls far below 0.
    """
    terms = torch.empty(len(y), dtype=torch.float64)
    right = torch.empty(len(y), dtype=torch.bool)
    weights = []
    for part in range(int(parts.max()) + 1):
        here, others = parts == part, parts != part
        w = _best_weights(unseen[:, others], y[others], prior)
        scores = combine(unseen[:, here], w)
        terms[here] = log_ratio(scores, y[here], prior)
        right[here] = (scores + prior.log()).argmax(1) == y[here]
        weights.append(w)
    return terms, float(right.double().mean()), weights


def _best_weights(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """Weights of at least 0: critics that got a negative one are left out, the worst first.

    A fold's chance surplus of a label is missing in all the others, so scores of unseen data lean slightly
    the wrong way where there is nothing to know. A negative weight would take that for knowledge.
    """
    weights = torch.zeros(len(scores), dtype=torch.float64)
    active = torch.arange(len(scores))
    while len(active):
        found = _free_weights(scores[active], y, prior)
        if float(found.min()) >= 0:
            weights[active] = found
            break
        active = active[torch.arange(len(active)) != found.argmin()]
    return weights


def _free_weights(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    weights = torch.full((len(scores),), 0.5 / len(scores), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=30, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        # A critic's own weight is 1; a few samples must not argue for a much larger one.
        doubt = weights.square().sum() / (2 * len(y))
        loss = doubt - log_ratio(combine(scores, weights), y, prior).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


def summarise(terms: Tensor, fewer: Tensor, prior: Tensor, accuracy: float, *, fitted: float) -> Information:
    """The value and its interval, from the terms of unseen data: of critics fitted on all of the other
    folds (`terms`), and on half as many samples (`fewer`)."""
    value, ceiling = float(terms.mean()), entropy(prior)
    shortfall = max(float((terms - fewer).mean()), 0.0)
    low, high = _skewed_interval(2 * terms - fewer if shortfall else terms)
    low = min(max(min(low, value), 0.0), ceiling)
    high = min(max(high, value, 0.0), ceiling)
    return Information(
        value, (low, high), ceiling, fitted - value, shortfall, accuracy, terms.numpy().astype(np.float32)
    )


def _skewed_interval(terms: Tensor) -> tuple[float, float]:
    """A 95 % interval of the mean, corrected for skewness.

    Few samples of a label carry most of the information, and a draw with few of them has a small mean
    and a small spread at once. So t = (mean - truth) / error is skewed the other way; to first order its
    quantiles are z - k (2 z^2 + 1) / 6 with k the skewness of the mean (Cornish-Fisher, studentised).
    """
    n = len(terms)
    mean, spread = float(terms.mean()), float(terms.std())
    if spread < 1e-12:  # every critic was given the weight 0
        return mean, mean
    error = spread / math.sqrt(n)
    k = float(((terms - mean) ** 3).mean()) / spread**3 / math.sqrt(n)
    shift = k * (2 * Z95**2 + 1) / 6
    # Beyond this the expansion is no longer one; the correction must not turn an end around.
    shift = min(max(shift, -1.0), 1.0)
    return mean - (Z95 - shift) * error, mean + (Z95 + shift) * error


def check_labels(y: Tensor, n: int) -> Tensor:
    if y.ndim != 1 or y.is_floating_point() or len(y) != n:
        raise InputError(
            f"labels have shape {tuple(y.shape)} and type {y.dtype}, expected one whole number for each of the "
            f"{n} features"
        )
    y = y.long()
    if int(y.min()) < 0:
        raise InputError(f"labels out of range: the smallest is {int(y.min())}, expected 0 or more")
    counts = torch.bincount(y)
    if (counts > 0).sum() < 2:
        raise InputError("there is only one label, so there is nothing to tell apart; give at least two")
    y = torch.unique(y, return_inverse=True)[1]
    counts = counts[counts > 0]
    if int(counts.min()) < FEWEST:
        raise InputError(
            f"a label has only {int(counts.min())} samples, expected at least {FEWEST}; give more, or join labels"
        )
    return y
