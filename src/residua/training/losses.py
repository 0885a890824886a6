"""Losses that several methods share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def cross_entropy_in_turn(model: nn.Module, x: Tensor, y: Tensor, _: bool) -> Tensor:
    """Cross-entropy of the batches of `streams.InTurn`, whichever source they are from."""
    return F.cross_entropy(model(x), y)


def descent_and_ascent(model: nn.Module, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor, *, alpha: float) -> Tensor:
    """alpha CE(retain) - (1 - alpha) CE(forget), of the batches of `streams.SideBySide`."""
    kept = F.cross_entropy(model(x), y)
    forgotten = F.cross_entropy(model(x_f), y_f)
    return alpha * kept - (1 - alpha) * forgotten


def kl_divergence(logits: Tensor, target: Tensor) -> Tensor:
    """KL(target || softmax(logits)), the mean over samples; `target` holds probabilities.

    A target of exactly 0 counts 0 (0 log 0 = 0), so masked classes are allowed.
    """
    log_p = F.log_softmax(logits.float(), dim=1)
    return (torch.xlogy(target, target) - target * log_p).sum(dim=1).mean()


def distillation(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), the mean over samples."""
    target = F.softmax(teacher.float() / temperature, dim=1)
    return temperature**2 * kl_divergence(student.float() / temperature, target)


def supervised_contrastive(z: Tensor, y: Tensor, temperature: float, normalise: bool = True) -> Tensor:
    """SupCon (Khosla et al. 2020): samples of one label are drawn together, all others pushed away.

        mean_i  1/|P(i)| sum_{p in P(i)} -log( exp(z_i z_p / t) / sum_{a != i} exp(z_i z_a / t) )

    with z on the unit sphere (unless `normalise` is off) and P(i) the other samples of i's label. Anchors without a positive
    have no loss and are left out of the mean; where none has one the loss is 0.
    """
    z = F.normalize(z.float(), dim=1) if normalise else z.float()
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    # In bfloat16, which autocast takes for products, cosines are off by up to 0.002; a temperature of 0.07 makes that 0.03.
    with torch.autocast(z.device.type, enabled=False):
        similar = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    log_p = (similar - similar.logsumexp(dim=1, keepdim=True)).masked_fill(itself, 0.0)
    positive = (y[:, None] == y[None, :]) & ~itself
    counts = positive.sum(dim=1)
    anchors = counts > 0
    if not anchors.any():
        return z.sum() * 0.0
    return -((log_p * positive).sum(dim=1)[anchors] / counts[anchors]).mean()
