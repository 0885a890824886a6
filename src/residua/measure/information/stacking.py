"""Stacking: several critics read as one, with weights that are found on other samples than those read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy.optimize import nnls
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
        gradient, curvature = problem.derivatives(w)
        step = _least(curvature, gradient, w) - w
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


def _least(curvature: Tensor, gradient: Tensor, w: Tensor) -> Tensor:
    """The v >= 0 that minimises the quadratic model g^T (v - w) + 1/2 (v - w)^T C (v - w)."""
    curvature = curvature + 1e-10 * curvature.diagonal().max() * torch.eye(len(w), dtype=torch.float64)
    root = torch.linalg.cholesky(curvature)
    target = torch.linalg.solve_triangular(root, (curvature @ w - gradient)[:, None], upper=False)[:, 0]
    return torch.from_numpy(nnls(root.T.numpy(), target.numpy(), maxiter=100 * len(w))[0])


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
