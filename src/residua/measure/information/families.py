"""Families of critics and their stacking: several critics read as one, with weights found on other samples.

- `linear`: linear critics on the pooled features, as in a linear probe.
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
import torch.nn.functional as F
from scipy.optimize import nnls
from torch import Tensor

from residua.measure.information import critics
from residua.measure.information.linear import linear_scores
from residua.measure.information.samples import stratified_folds


def log_ratio(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """t_i = log q(y_i | z_i) - log p(y_i)."""
    log_prior = prior.log()
    log_q = F.log_softmax(scores + log_prior, dim=1).gather(1, y[:, None])[:, 0]
    return log_q - log_prior[y]


def combine(scores: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum (n, |Y|) of the scores (critics, n, |Y|)."""
    return torch.einsum("mnc,m->nc", scores, weights)


def best_weights(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """The weights w >= 0 that maximise the mean term of scores (critics, n, |Y|), by Newton's method.

    One weight per critic: a convex problem in as many numbers as there are critics. Each step solves its quadratic model
    over all w >= 0 (non-negative least squares): critics are often all but equal, and a Newton step whose
    negative weights are merely cut off may then gain nothing and stop far from the optimum. A single critic's weight is its
    calibration: 0 if it only memorised, so that a reading never falls far below 0. Negative weights are excluded: a fold's
    chance surplus of a label is missing in all the others, so unseen scores lean slightly the wrong way where there is nothing
    to know, and a negative weight would take that for knowledge. A critic's own weight is 1; few samples
    must not argue for a much larger one, so |w|^2 / 2n is taken off.
    """
    problem = _TwoLabels(scores, y, prior) if len(prior) == 2 else _Labels(scores, y, prior)
    w = torch.full((len(scores),), 0.5 / len(scores), dtype=torch.float64)
    value = problem.loss(w)
    for _ in range(60):
        # A Newton step over w >= 0, shortened until it lowers the loss (Armijo's rule).
        gradient, curvature = problem.derivatives(w)
        # The v >= 0 that minimises the quadratic model g^T (v - w) + 1/2 (v - w)^T C (v - w): with C = L L^T that is
        # |L^T v - L^-1 (C w - g)|^2 / 2 up to a constant, non-negative least squares.
        curvature = curvature + 1e-10 * curvature.diagonal().max() * torch.eye(len(w), dtype=torch.float64)
        root = torch.linalg.cholesky(curvature)
        target = torch.linalg.solve_triangular(root, (curvature @ w - gradient)[:, None], upper=False)[:, 0]
        step = torch.from_numpy(nnls(root.T.numpy(), target.numpy(), maxiter=100 * len(w))[0]) - w
        slope = float(gradient @ step)
        if slope > -1e-10:
            break
        size = 1.0
        while (lower := problem.loss(w + size * step)) > value + 1e-4 * size * slope and size > 1e-6:
            size /= 2
        if lower >= value:
            break
        w, value = w + size * step, lower
    return w


class _TwoLabels:
    """-mean term + |w|^2 / 2n where only the difference of the two labels' scores counts: logistic regression."""

    def __init__(self, scores: Tensor, y: Tensor, prior: Tensor) -> None:
        self.odds = (scores[:, :, 1] - scores[:, :, 0]).contiguous()
        self.offset = float(prior[1].log() - prior[0].log())
        self.target = y.double()
        self.n = len(y)

    def loss(self, w: Tensor) -> float:
        logit = w @ self.odds + self.offset
        return float((F.softplus(logit) - self.target * logit).mean() + w @ w / (2 * self.n))

    def derivatives(self, w: Tensor) -> tuple[Tensor, Tensor]:
        # Gradient and Hessian of logistic regression on the critics' log-odds, with the ridge w^2 / 2n.
        p = torch.sigmoid(w @ self.odds + self.offset)
        gradient = self.odds @ (p - self.target) / self.n + w / self.n
        curvature = (self.odds * (p * (1 - p))) @ self.odds.T / self.n
        return gradient, curvature + torch.eye(len(w), dtype=torch.float64) / self.n


class _Labels:
    """The same for any number of labels: multinomial regression on the critics' scores."""

    def __init__(self, scores: Tensor, y: Tensor, prior: Tensor) -> None:
        self.scores, self.y, self.prior, self.n = scores, y, prior, len(y)
        self.own = scores.gather(2, y[None, :, None].expand(len(scores), self.n, 1))[..., 0].mean(1)

    def loss(self, w: Tensor) -> float:
        terms = log_ratio(combine(self.scores, w), self.y, self.prior)
        return float(w @ w / (2 * self.n) - terms.mean())

    def derivatives(self, w: Tensor) -> tuple[Tensor, Tensor]:
        # The mean over samples of the scores' expectation and covariance under q, critic by critic.
        q = F.softmax(combine(self.scores, w) + self.prior.log(), dim=1)
        weighted = self.scores * q
        expected = weighted.sum(2)
        gradient = expected.mean(1) - self.own + w / self.n
        curvature = weighted.flatten(1) @ self.scores.flatten(1).T - expected @ expected.T
        return gradient, curvature / self.n + torch.eye(len(w), dtype=torch.float64) / self.n


Family = Literal["stack", "linear", "network", "nonlinear"]
FAMILIES: tuple[Family, ...] = ("stack", "linear", "network", "nonlinear")
# The critics of each family.
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
    """Scores on `outside` of the critics on pooled features (N, d), in canonical coordinates, fitted on `inside`.

    They compute where the features are; the scores are on the CPU.
    """
    fit, labels, read = z[inside.to(z.device)], y[inside].to(z.device), z[outside.to(z.device)]
    prior = prior.to(z.device)
    scores: dict[str, Tensor] = {}
    if "linear" in parts:
        scores["linear"] = linear_scores(fit, labels, read, prior)
    if "clouds" in parts:
        clouds = [critics.quadratic_scores(fit, labels, read, prior)]
        if len(prior) > 2:
            clouds.append(critics.cloud_scores(fit, labels, read, prior))
        scores["clouds"] = torch.cat(clouds)
    if "perceptron" in parts:
        scores["perceptron"] = critics.perceptron_scores(fit, labels, read, prior)
    return {part: of_part.cpu() for part, of_part in scores.items()}


def half_of(y: Tensor, inside: Tensor) -> Tensor:
    """Every second sample of each label: what a critic with half the data is fitted on."""
    return inside[stratified_folds(y[inside], 2) == 0]


@dataclass(frozen=True, eq=False)
class Read:
    """The reading of one family at one block: the scores and the term of every sample."""

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
    later = Read(torch.zeros(len(y), len(prior), dtype=torch.float64), torch.zeros(len(y), dtype=torch.float64))
    for block in sorted(blocks, reverse=True):
        # By identity: at the last block the network critics are the linear ones, and count once.
        parts = {id(scores): scores for part in PARTS[family] if (scores := blocks[block].get(part)) is not None}
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
