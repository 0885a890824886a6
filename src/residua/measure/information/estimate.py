"""Mutual information between features and a label, read on data that the critic has not seen.

For any critic q(c | z),

    I(Z; Y) = H(Y) - H(Y | Z) >= E[ log q(y | z) - log p(y) ],

with equality when q is the truth. The mean of the terms t_i = log q(y_i | z_i) - log p(y_i) over data that
did not take part in fitting q is therefore an honest lower bound up to sampling noise, which each
sample's own term shows. Read on its fitting data, a flexible critic memorises and shows H(Y) for
anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from residua.errors import InputError
from residua.measure.information.coordinates import canonical
from residua.measure.information.families import PARTS, half_of, pooled_scores, read_family
from residua.measure.information.intervals import interval
from residua.measure.information.labels import FEWEST, check_labels, entropy, frequencies, stratified_folds
from residua.training.loop import seeded


@dataclass(frozen=True)
class Information:
    """I(Z; Y) in nats.

    `value` is the mean of `terms`, one per sample: a lower bound, up to sampling noise. `shortfall` is what
    critics with more data would probably add, and `interval` is a 95 % interval around value + shortfall.
    How often such intervals cover the truth is in records/calibration.
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

    It is what `InformationCurve` does with the pooled features of a block: the same coordinates, critics, folds,
    weights and interval.
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
    z = canonical(z)(z.double()).float()
    prior = frequencies(y)
    parts = PARTS["nonlinear"]
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
    return Information(
        float(terms.mean()), (low, high), entropy(prior), shortfall, accuracy, terms.astype(np.float32)
    )


def _put(scores: dict[str, Tensor], of_fold: dict[str, Tensor], where: Tensor, n: int) -> None:
    for part, own in of_fold.items():
        if part not in scores:
            scores[part] = own.new_empty(len(own), n, own.shape[2])
        scores[part][:, where] = own
