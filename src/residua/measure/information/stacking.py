"""Stacking: several critics read as one, with weights that are found on other samples than those read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def log_ratio(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """t_i = log q(y_i | z_i) - log p(y_i)."""
    log_prior = prior.log()
    log_q = F.log_softmax(scores + log_prior, dim=1).gather(1, y[:, None])[:, 0]
    return log_q - log_prior[y]


def combine(scores: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum (n, |Y|) of the scores (critics, n, |Y|)."""
    return torch.einsum("mnc,m->nc", scores, weights)


def best_weights(scores: Tensor, y: Tensor, prior: Tensor) -> Tensor:
    """The weights w >= 0 that maximise the mean term of scores (critics, n, |Y|), by a projected Newton method.

    One weight per critic: a convex problem in as many numbers as there are critics. A single critic's weight is its
    calibration: 0 if it only memorised, so that a reading never falls far below 0. Negative weights are excluded: a fold's
    chance surplus of a label is missing in all the others, so unseen scores lean slightly the wrong way where there is nothing
    to know, and a negative weight would take that for knowledge. A critic's own weight is 1; few samples
    must not argue for a much larger one, so |w|^2 / 2n is taken off.
    """
    problem = _TwoLabels(scores, y, prior) if len(prior) == 2 else _Labels(scores, y, prior)
    w = torch.full((len(scores),), 0.5 / len(scores), dtype=torch.float64)
    value = problem.loss(w)
    for _ in range(40):
        gradient, curvature = problem.derivatives(w)
        free = (w > 0) | (gradient < 0)
        if not free.any():
            break
        hessian = curvature[free][:, free]
        hessian.diagonal().add_(1e-9 * hessian.diagonal().max())
        step = torch.zeros_like(w)
        step[free] = torch.linalg.solve(hessian, gradient[free])
        size, moved, lower = 1.0, w, value
        while size > 1e-3:
            moved = (w - size * step).clamp_min(0)
            lower = problem.loss(moved)
            if lower < value:
                break
            size /= 4
        if value - lower < 1e-8:
            break
        w, value = moved, lower
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
        q = F.softmax(combine(self.scores, w) + self.prior.log(), dim=1)
        weighted = self.scores * q
        expected = weighted.sum(2)
        gradient = expected.mean(1) - self.own + w / self.n
        curvature = weighted.flatten(1) @ self.scores.flatten(1).T - expected @ expected.T
        return gradient, curvature / self.n + torch.eye(len(w), dtype=torch.float64) / self.n
