"""Critics: scores s_c(z) that tell how much likelier label c is, given the features z.

A critic models q(c | z) = softmax_c( s_c(z) + log p(c) ), with p the label frequencies of the whole
data set. This is InfoNCE in which the labels of a batch are replaced by those of the data: for a
discrete label the K x K matrix of scores has only |Y| distinct columns.

Features are given in canonical coordinates (`coordinates.py`): every direction has variance 1, so one penalty
suits all of them, and no critic can depend on how a block writes its features down.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.measure.information.coordinates import gram
from residua.training.optimizers import AdamW

# How much of a label's own covariance is replaced by the common one.
SHRINKAGES = (0.2, 0.7)
# Log-likelihoods of normal clouds have long tails; beyond this they grow like a logarithm.
TAIL = 8.0
WIDTH, BATCH = 128, 256
FEWEST_STEPS, MOST_STEPS, EPOCHS = 150, 900, 12


def quadratic_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (shrinkages, n, |Y|) on `read` if each label is a normal cloud with a covariance of its own.

        s_c(z) = -1/2 (z - m_c)^T S_c^-1 (z - m_c) - 1/2 log det S_c,   S_c = (1 - a) C_c + a C

    with C_c the label's covariance, C the common one and a the shrinkage. It sees labels that differ in scale, or in how two
    directions go together, such as a component whose sign was scrambled while the sign was kept elsewhere.
    """
    z, read = fit.double(), read.double()
    counts = torch.bincount(labels, minlength=len(prior)).double()
    means = torch.zeros(len(prior), z.shape[1], dtype=torch.float64).index_add_(0, labels, z)
    means /= counts[:, None].clamp_min(1)
    inside = z - means[labels]
    scatter = [gram(inside[labels == c]) for c in range(len(prior))]
    common = torch.stack(scatter).sum(0) / len(z)
    own = [matrix / count for matrix, count in zip(scatter, counts.clamp_min(1), strict=True)]
    scores = read.new_empty(len(SHRINKAGES), len(read), len(prior))
    floor = 1e-6 * torch.eye(z.shape[1], dtype=torch.float64)
    for row, shrinkage in enumerate(SHRINKAGES):
        for c, covariance in enumerate(own):
            root = torch.linalg.cholesky((1 - shrinkage) * covariance + shrinkage * common + floor)
            x = torch.linalg.solve_triangular(root, (read - means[c]).T, upper=False)
            scores[row, :, c] = -0.5 * x.square().sum(0) - root.diagonal().log().sum()
    centred = scores - scores.mean(2, keepdim=True)
    return TAIL * torch.asinh(centred / TAIL)


def perceptron_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (1, n, |Y|) on `read` of a two-layer perceptron fitted on `fit`: what neither a line nor a cloud sees."""
    fit, read, log_prior = fit.float(), read.float(), prior.float().log()
    net = nn.Sequential(nn.Linear(fit.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, len(prior)))
    optimizer = AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    batches = max(1, len(fit) // BATCH)
    total = min(max(EPOCHS * batches, FEWEST_STEPS), MOST_STEPS)
    for step in range(total):
        if step % batches == 0:
            order = torch.randperm(len(fit))
        chosen = order[(step % batches) * BATCH : (step % batches + 1) * BATCH]
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * (1 + math.cos(math.pi * step / total)) / 2
        loss = F.cross_entropy(net(fit[chosen]) + log_prior, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return net(read).double()[None]


def cloud_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (1, n, |Y|) on `read` if each label is a normal cloud and all clouds have one covariance W.

    With many labels and few samples of each, free weights for every label cost more than they tell. Here the
    centres are drawn from a normal distribution with covariance B themselves, so directions in which
    labels do not differ are hardly learned. In coordinates where W is 1 and B is diagonal (b), label c with
    n_c samples and mean m_c has

        q(z | c) = N( z;  m_c n_c b / (n_c b + 1),  1 + b / (n_c b + 1) ).
    """
    z, read = fit.double(), read.double()
    counts = torch.bincount(labels, minlength=len(prior)).double()[:, None]
    grand = z.mean(0)
    means = torch.zeros(len(prior), z.shape[1], dtype=torch.float64).index_add_(0, labels, z - grand) / counts
    inside = z - grand - means[labels]
    within = gram(inside) / max(len(z) - len(prior), 1)
    spread, axes = torch.linalg.eigh(within)
    whiten = axes / spread.clamp_min(1e-6 * float(spread.max()) + 1e-12).sqrt()
    centred = means @ whiten
    # The means scatter by 1 / n_c even where the centres are equal.
    between = (centred.T * prior) @ centred - torch.eye(z.shape[1], dtype=torch.float64) / counts.mean()
    b, turn = torch.linalg.eigh(between)
    b = b.clamp_min(0.0)
    shrunk = (centred @ turn) * (counts * b / (counts * b + 1))
    variance = 1 + b / (counts * b + 1)
    x = (read - grand) @ (whiten @ turn)
    distance = (
        x.square() @ (1 / variance).T
        - 2 * x @ (shrunk / variance).T
        + (shrunk.square() / variance + variance.log()).sum(1)
    )
    return -0.5 * distance[None]
