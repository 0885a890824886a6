"""Labels: which ones there are, how often, what they could tell, and how they are spread over folds."""

from __future__ import annotations

import torch
from torch import Tensor

from residua.errors import InputError

FEWEST = 20  # samples of a label


def check_labels(y: Tensor, n: int) -> Tensor:
    """The labels as 0, 1, ... without gaps; labels that cannot be read are refused."""
    if y.ndim != 1 or y.is_floating_point() or len(y) != n:
        raise InputError(
            f"labels have shape {tuple(y.shape)} and type {y.dtype}, expected one whole number for each of the "
            f"{n} features"
        )
    if len(y) and int(y.min()) < 0:
        raise InputError(f"labels out of range: the smallest is {int(y.min())}, expected 0 or more")
    kinds, y, counts = torch.unique(y.long(), return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        raise InputError("there is only one label, so there is nothing to tell apart; give at least two")
    if int(counts.min()) < FEWEST:
        raise InputError(
            f"a label has only {int(counts.min())} samples, expected at least {FEWEST}; give more, or join labels"
        )
    return y


def frequencies(y: Tensor, labels: int = 0) -> Tensor:
    """p(c): the share of each label."""
    return torch.bincount(y, minlength=labels).double() / len(y)


def entropy(prior: Tensor) -> float:
    """H(Y) in nats: what a perfect critic reads."""
    return float(-(prior * prior.log()).sum())


def stratified_folds(y: Tensor, folds: int) -> Tensor:
    """The fold of each sample: at random, with each label spread evenly."""
    fold = torch.empty(len(y), dtype=torch.int64)
    for label in y.unique():
        where = (y == label).nonzero()[:, 0]
        fold[where[torch.randperm(len(where))]] = torch.arange(len(where)) % folds
    return fold
