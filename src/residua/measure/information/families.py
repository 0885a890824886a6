"""Families of critics: what each can read from a block, on the same folds, and the stack of all.

- `linear`: linear critics on the pooled features. What a probe finds.
- `network`: the paper's critic, the rest of the network with new weights, on the whole maps. At the last block it
  is pooling and projection, so a linear critic again.
- `nonlinear`: linear critics, normal clouds with covariances of their own, and a perceptron, on the pooled features.
- `stack`: all of them together.

A critic of a later block is a critic of an earlier one, since Z_{l+1} is a function of Z_l. So every family hands its
scores down from the last block to the first, and no curve rises along the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from residua.measure.information.critics import (
    cloud_scores,
    linear_scores,
    perceptron_scores,
    quadratic_scores,
)
from residua.measure.information.labels import stratified_folds
from residua.measure.information.stacking import best_weights, combine, log_ratio

Family = Literal["stack", "linear", "network", "nonlinear"]
FAMILIES: tuple[Family, ...] = ("stack", "linear", "network", "nonlinear")
# What each family is made of.
PARTS: dict[Family, tuple[str, ...]] = {
    "stack": ("linear", "clouds", "perceptron", "network"),
    "linear": ("linear",),
    "network": ("network",),
    "nonlinear": ("linear", "clouds", "perceptron"),
}

Scores = Mapping[str, Tensor]  # by part: (critics, n, |Y|)


def pooled_scores(
    z: Tensor, y: Tensor, inside: Tensor, outside: Tensor, prior: Tensor, parts: tuple[str, ...]
) -> dict[str, Tensor]:
    """Scores on `outside` of the critics on pooled features (N, d), in canonical coordinates, fitted on `inside`."""
    fit, labels, read = z[inside], y[inside], z[outside]
    scores: dict[str, Tensor] = {}
    if "linear" in parts:
        scores["linear"] = linear_scores(fit, labels, read, prior)
    if "clouds" in parts:
        clouds = [quadratic_scores(fit, labels, read, prior)]
        if len(prior) > 2:
            clouds.append(cloud_scores(fit, labels, read, prior))
        scores["clouds"] = torch.cat(clouds)
    if "perceptron" in parts:
        scores["perceptron"] = perceptron_scores(fit, labels, read, prior)
    return scores


def half_of(y: Tensor, inside: Tensor) -> Tensor:
    """Every second sample of each label: what a critic with half the data is fitted on."""
    return inside[stratified_folds(y[inside], 2) == 0]


@dataclass(frozen=True, eq=False)
class Read:
    """What one family reads at one block: the scores and the term of every sample."""

    scores: Tensor
    terms: Tensor


def read_family(
    family: Family, blocks: Mapping[int, Scores], y: Tensor, fold: Tensor, prior: Tensor
) -> dict[int, Read]:
    """Each block's reading of a family, from the last block to the first, each with the scores of the one after.

    `fold` is -2 for samples that are only read: their weights come from all folds. The mean term over folds >= 0 of a
    block is at least 0, which a silent critic reads, and at least the later block's: where chance says otherwise, that critic is
    taken instead.
    """
    asked = fold >= 0
    readings: dict[int, Read] = {}
    later = Read(
        torch.zeros(len(y), len(prior), dtype=torch.float64), torch.zeros(len(y), dtype=torch.float64)
    )
    for block in sorted(blocks, reverse=True):
        # By identity: at the last block the network critics are the linear ones, and count once.
        parts = {
            id(scores): scores for part in PARTS[family] if (scores := blocks[block].get(part)) is not None
        }
        own = list(parts.values())
        if own:
            handed = [later.scores[None]] if readings else []
            candidates = torch.cat([*own, *handed])
            scores = torch.empty_like(later.scores)
            for k in range(int(fold.max()) + 1):
                others = asked & (fold != k)
                weights = best_weights(candidates[:, others], y[others], prior)
                scores[fold == k] = combine(candidates[:, fold == k], weights)
            if (fold < 0).any():
                weights = best_weights(candidates[:, asked], y[asked], prior)
                scores[fold < 0] = combine(candidates[:, fold < 0], weights)
            terms = log_ratio(scores, y, prior)
            if float(terms[asked].mean()) > float(later.terms[asked].mean()):
                later = Read(scores, terms)
        readings[block] = later
    return readings
