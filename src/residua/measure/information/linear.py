"""Linear critics: logistic regression with several ridges at once.

The problem is convex, and features in canonical coordinates are white, so that its Hessian is close to a multiple of the
identity: L-BFGS needs a few dozen gradients where Newton's method would build a d x d matrix at every step. Only few
features are solved by Newton's method, which is faster there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.measure.information.coordinates import gram

# Strengths of the penalty (ridge / 2) |w|^2, from strong to weak; the stack chooses among them.
RIDGES = (1e-1, 1e-2, 1e-3, 1e-5)
# With at most so many features, a Newton step costs less than the gradients that it saves.
FEW_FEATURES = 128
# A critic has converged if another step would lower its objective by less than this fraction of it.
CONVERGED = 1e-10
# Products are in single precision until steps gain less than this, far above its rounding errors.
ROUGH = 1e-7
MOST_STEPS, MEMORY = 1000, 10
# Bytes of the features and of the scores of one chunk of samples: what a cache holds, and what keeps a GPU busy.
CHUNK, ON_GPU = 1 << 21, 1 << 28


def linear_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (ridges, n, |Y|) on `read` of linear critics fitted on `fit`, one for each ridge.

    Minimises mean_i -log q(y_i | z_i) + (ridge / 2) |w|^2, a convex problem, to its end.
    """
    weights = linear_weights(fit, labels, prior)
    scores = torch.stack([read.double() @ w[:, :-1].T + w[:, -1] for w in weights])
    # Of two labels the first scores 0.
    return F.pad(scores, (1, 0)) if scores.shape[2] == 1 else scores


def linear_weights(fit: Tensor, labels: Tensor, prior: Tensor) -> Tensor:
    """Weights (ridges, |Y|, d + 1), intercepts last; of two labels only the second's, as the first's are 0."""
    log_prior = prior.double().log()
    ridges = torch.tensor(RIDGES, dtype=torch.float64, device=fit.device)
    if len(prior) == 2 and fit.shape[1] <= FEW_FEATURES:
        return _newton(F.pad(fit.double(), (0, 1), value=1.0), labels, log_prior)
    vectors = len(prior) if len(prior) > 2 else 1
    weights = log_prior.new_zeros(len(RIDGES), vectors, fit.shape[1] + 1)
    for dtype, enough in ((torch.float32, ROUGH), (torch.float64, CONVERGED)):
        weights = minimise(_Objective(fit, labels, log_prior, ridges, dtype), weights, enough)
    return weights


def _newton(z: Tensor, y: Tensor, log_prior: Tensor) -> Tensor:
    """Weights (ridges, 1, d) for two labels; each ridge starts from the one before."""
    n, d = z.shape
    target = y.double()
    offset = float(log_prior[1] - log_prior[0])
    rough = z.float()  # enough for the Hessian, which only says where to go
    w, penalty = z.new_zeros(d), z.new_zeros(d)

    def objective(w: Tensor) -> float:
        logit = z @ w + offset
        return float((F.softplus(logit) - target * logit).mean() + (penalty * w.square()).sum() / 2)

    found = []
    for ridge in RIDGES:
        penalty[:-1] = ridge
        value = objective(w)
        for _ in range(50):
            p = torch.sigmoid(z @ w + offset)
            gradient = z.T @ (p - target) / n + penalty * w
            weights = (p * (1 - p) / n).clamp_min(1e-9).sqrt().float()
            hessian = gram(rough * weights[:, None]) + torch.diag(penalty)
            hessian.diagonal().add_(1e-10)
            step = torch.linalg.solve(hessian, gradient)
            if float(step @ gradient) < 1e-10:
                break
            size = 1.0
            while (lower := objective(w - size * step)) > value and size > 1e-6:
                size /= 2
            w, value = w - size * step, min(lower, value)
        found.append(w)
    return torch.stack(found)[:, None]


class _Objective:
    """Values (problems) and gradients (problems, vectors, d + 1) of several ridges' problems in one pass over the samples.

    Products are in `dtype`, sums over chunks of samples in double precision.
    """

    def __init__(self, z: Tensor, y: Tensor, log_prior: Tensor, ridges: Tensor, dtype: torch.dtype) -> None:
        self.z, self.y, self.log_prior, self.ridges, self.dtype = z, y, log_prior.to(dtype), ridges, dtype

    def __call__(self, weights: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        problems, vectors, d = len(weights), weights.shape[1], weights.shape[2] - 1
        w = weights.to(self.dtype).flatten(0, 1)
        value = weights.new_zeros(problems)
        gradient = weights.new_zeros(len(w), d + 1)
        held = ON_GPU if w.is_cuda else CHUNK
        size = max(256, held // (max(len(w), d) * self.dtype.itemsize))
        for z, y in zip(self.z.split(size), self.y.split(size), strict=True):
            z, own = z.to(self.dtype), (slice(None), y, torch.arange(len(y), device=y.device))
            logits = torch.addmm(w[:, -1:], w[:, :-1], z.T).view(problems, vectors, len(y))
            if vectors == 1:
                logits = F.pad(logits, (0, 0, 1, 0))
            log_q = F.log_softmax(logits + self.log_prior[:, None], dim=1)
            value -= log_q[own].sum(1, dtype=torch.float64)
            residual = log_q.exp_()
            residual[own] -= 1
            residual = residual[:, -vectors:].reshape(len(w), len(y))
            gradient[:, :-1] += residual @ z
            gradient[:, -1] += residual.sum(1, dtype=torch.float64)
        ridges = self.ridges[which]
        gradient = gradient.view_as(weights) / len(self.z)
        gradient[..., :-1] += ridges[:, None, None] * weights[..., :-1]
        penalty = ridges / 2 * weights[..., :-1].square().flatten(1).sum(1)
        return value / len(self.z) + penalty, gradient


def minimise(objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], start: Tensor, enough: float) -> Tensor:
    """The minima (problems, ...) of several smooth convex problems, by L-BFGS side by side.

    Args:
        objective: Values and gradients at points (problems, ...), of the problems with these numbers.
        start: First point of every problem.
        enough: A problem is over if the next step would gain less than about this fraction of its value, or if no
            shorter step gains anything.
    """
    points, found = start.flatten(1), start.flatten(1).clone()
    live = torch.arange(len(start), device=start.device)

    def at(points: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = objective(points.view(-1, *start.shape[1:]), live)
        return value, gradient.flatten(1)

    value, gradient = at(points)
    past: list[tuple[Tensor, Tensor, Tensor]] = []  # steps, changes of the gradient, 1 / their products
    for _ in range(MOST_STEPS):
        step = _direction(gradient, past)
        slope = (step * gradient).sum(1)
        going = slope > enough * value
        size = start.new_ones(len(live), 1)
        if not past:
            size = (1 / gradient.norm(dim=1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
        for _ in range(40):
            lower, change = at(points - size * step)
            # Armijo's rule, up to rounding.
            short = going & ~(lower <= value - 1e-4 * size[:, 0] * slope + 1e-15 * value.abs())
            if not short.any():
                break
            size[short] /= 2
        going &= ~short
        found[live[~going]] = points[~going]
        if not going.any():
            return found.view_as(start)
        moved, turned = (-size * step)[going], (change - gradient)[going]
        inverse = 1 / (moved * turned).sum(1, keepdim=True).clamp_min(1e-300)
        if not going.all():
            past = [(s[going], y[going], r[going]) for s, y, r in past]
        past = [*past[1 - MEMORY :], (moved, turned, inverse)]
        points, value, gradient, live = points[going] + moved, lower[going], change[going], live[going]
    found[live] = points
    return found.view_as(start)


def _direction(gradient: Tensor, past: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """The inverse Hessian that L-BFGS has learned from its last steps, times the gradient (two-loop recursion)."""
    step, factors = gradient.clone(), []
    for moved, turned, inverse in reversed(past):
        factors.append(inverse * (moved * step).sum(1, keepdim=True))
        step -= factors[-1] * turned
    if past:
        _, turned, inverse = past[-1]
        step /= inverse * turned.square().sum(1, keepdim=True).clamp_min(1e-300)
    for (moved, turned, inverse), factor in zip(past, reversed(factors), strict=True):
        step += (factor - inverse * (turned * step).sum(1, keepdim=True)) * moved
    return step
