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
from torch import Tensor, nn

from residua.measure.information.coordinates import gram, solved

# How much of a label's own covariance is replaced by the common one.
SHRINKAGES = (0.2, 0.7)
# Floors of a covariance, in variances of a whitened direction; the next where the ones before do not make it positive.
FLOORS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# Log-likelihoods of normal clouds have long tails; beyond this they grow like a logarithm.
TAIL = 8.0
WIDTH, BATCH = 128, 256
FEWEST_STEPS, MOST_STEPS, EPOCHS = 150, 900, 12


def quadratic_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (shrinkages, n, |Y|) on `read` if each label is a normal cloud with a covariance of its own.

        s_c(z) = -1/2 (z - m_c)^T S_c^-1 (z - m_c) - 1/2 log det S_c,   S_c = (1 - a) C_c + a C

    with C_c the label's covariance, C the common one and a the shrinkage. It sees labels that differ in scale, or in how two
    directions go together, such as a component whose sign was scrambled while the sign was kept elsewhere. Of many samples
    products are in single precision.
    """
    # Where there are few samples, little but the floor keeps a covariance from being singular.
    many = len(fit) > 2 * fit.shape[1]
    kind = torch.float32 if many else torch.float64
    z, read = fit.to(kind), read.to(kind)
    counts = torch.bincount(labels, minlength=len(prior)).double()
    rare = (counts < (z.shape[1] / 2 if many else 0)).tolist()
    own = [z[labels == c] for c in range(len(prior))]
    means = torch.stack([rows.sum(0, dtype=torch.float64) / max(len(rows), 1) for rows in own]).to(kind)
    for rows, mean in zip(own, means, strict=True):
        rows -= mean
    scatter = {c: gram(own[c]) for c in range(len(prior)) if not rare[c]}
    few = [own[c] for c in range(len(prior)) if rare[c]]
    common = sum(scatter.values(), gram(torch.cat([z[:0], *few]))) / len(z)
    scores = z.new_empty(len(SHRINKAGES), len(read), len(prior), dtype=torch.float64)
    if any(rare):
        _rare_scores(scores, common, own, means, read, rare)
    for c, matrix in scatter.items():
        matrix /= counts[c].clamp_min(1)
        for row, shrinkage in enumerate(SHRINKAGES):
            root = _root(torch.lerp(matrix, common, shrinkage))
            x = solved(root, read - means[c])
            scores[row, :, c] = -0.5 * x.square_().sum(1, dtype=torch.float64) - root.diagonal().log().sum()
    centred = scores - scores.mean(2, keepdim=True)
    return TAIL * torch.asinh(centred / TAIL)


def _root(covariance: Tensor) -> Tensor:
    """The Cholesky factor, with a floor for directions without variance.

    Products in single precision may leave a direction a little below zero; then the floor rises.
    """
    for floor in FLOORS:
        covariance.diagonal().add_(floor)
        root, failed = torch.linalg.cholesky_ex(covariance)
        if not failed:
            break
    return root


def _rare_scores(
    scores: Tensor, common: Tensor, inside: list[Tensor], means: Tensor, read: Tensor, rare: list[bool]
) -> None:
    """Fill in the scores of labels with fewer samples than directions, whose covariance has few directions of its own.

    In coordinates where C is the identity, with e and V the eigenvalues and eigenvectors of C_c, S_c is a + (1 - a) e along V
    and a elsewhere: one product with V serves every shrinkage a.
    """
    root = _root(common.clone())
    means, read = (solved(root, rows.clone()) for rows in (means, read))
    log_det = 2 * root.diagonal().log().sum()
    for c in (label for label, few in enumerate(rare) if few):
        own = solved(root, inside[c])
        values, turn = torch.linalg.eigh((own @ own.T).double() / max(len(own), 1))
        values, turn = values[values > 1e-5], turn[:, values > 1e-5]
        axes = own.T @ (turn / (values * max(len(own), 1)).sqrt()).float()
        x = read - means[c]
        along, length = (x @ axes).square_().double(), x.square_().sum(1, dtype=torch.float64)
        for row, a in enumerate(SHRINKAGES):
            variance = a + (1 - a) * values
            distance = along @ (1 / variance - 1 / a) + length / a
            free = (len(root) - len(values)) * math.log(a)
            scores[row, :, c] = -0.5 * (distance + variance.log().sum() + free + log_det)


def perceptron_scores(fit: Tensor, labels: Tensor, read: Tensor, prior: Tensor) -> Tensor:
    """Scores (1, n, |Y|) on `read` of a two-layer perceptron fitted on `fit`: what neither a line nor a cloud sees."""
    fit, read, offset = fit.float(), read.float(), prior.float().log()[:, None]
    net = nn.Sequential(nn.Linear(fit.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, len(prior)))
    # All weights and all gradients, each as one vector with a view for each layer's weights and biases.
    values = nn.utils.parameters_to_vector(net.parameters()).detach().to(fit.device)
    slope, mean, square = (torch.zeros_like(values) for _ in range(3))
    sizes = [p.numel() for p in net.parameters()]
    (w, b, v, c), (dw, db, dv, dc) = (
        [own.view_as(p) for own, p in zip(vector.split(sizes), net.parameters(), strict=True)]
        for vector in (values, slope)
    )
    x = fit.new_empty(min(BATCH, len(fit)), fit.shape[1])
    batches = max(1, len(fit) // BATCH)
    total = min(max(EPOCHS * batches, FEWEST_STEPS), MOST_STEPS)
    for step in range(total):
        if step % batches == 0:
            order = torch.randperm(len(fit)).to(fit.device)
        chosen = order[(step % batches) * BATCH : (step % batches + 1) * BATCH]
        torch.index_select(fit, 0, chosen, out=x)
        own = (labels[chosen], torch.arange(len(chosen), device=fit.device))
        # The gradient of the mean cross-entropy by hand, samples along the columns: half the time of autograd's.
        hidden = torch.addmm(b[:, None], w, x.T).relu_()
        residual = torch.addmm(c[:, None] + offset, v, hidden).softmax(0)
        residual[own] -= 1
        residual /= len(chosen)
        torch.mm(residual, hidden.T, out=dv)
        torch.sum(residual, 1, out=dc)
        back = (v.T @ residual).mul_(hidden.sign_())
        torch.mm(back, x, out=dw)
        torch.sum(back, 1, out=db)
        # A step of AdamW. PyTorch's own takes longer than the products where there are few features.
        lr = 4e-3 * (1 + math.cos(math.pi * step / total)) / 2
        values.mul_(1 - lr * 1e-2)
        mean.lerp_(slope, 1 - 0.9)
        square.mul_(0.999).addcmul_(slope, slope, value=1 - 0.999)
        root = (square.sqrt() / (1 - 0.999 ** (step + 1)) ** 0.5).add_(1e-8)
        values.addcdiv_(mean, root, value=-lr / (1 - 0.9 ** (step + 1)))
    hidden = torch.addmm(b, read, w.T).relu_()
    return torch.addmm(c, hidden, v.T).double()[None]


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
    means = z.new_zeros(len(prior), z.shape[1]).index_add_(0, labels, z - grand) / counts
    inside = z - grand - means[labels]
    within = gram(inside.float()) / max(len(z) - len(prior), 1)
    spread, axes = torch.linalg.eigh(within)
    whiten = axes / spread.clamp_min(1e-6 * float(spread.max()) + 1e-12).sqrt()
    centred = means @ whiten
    # The means scatter by 1 / n_c even where the centres are equal.
    between = (centred.T * prior) @ centred
    between.diagonal().sub_(1 / counts.mean())
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
