"""POUR-P and POUR-D: project a class's direction out of the features, or distil that into the encoder (Le et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training.settings import Batch, LearningRate
from residua.unlearn._features import InHead, encoded, folded, linear_head, only_classes, wide
from residua.unlearn._sgd import Trained


@dataclass(frozen=True)
class Pour(InHead):
    """POUR-P, no training: z <- z - Q Q^T (z - m), with m the mean of the retained features and Q an orthonormal basis of
    the forgotten classes' directions in the simplex. Under neural collapse the other classes' directions remain a simplex.

    Written after the abstract of arXiv 2511.19339; no code is public. Kept in the head, as ESC is, so that every block is
    Original's and IDI is exactly 1.
    """

    # Differs from the paper: after the abstract, which does not say where a class's direction comes from. Under neural
    # collapse the class's mean and the head's weights have one direction, otherwise they do not; the head's is taken, less
    # the mean over classes, because it loses less accuracy. Centring at the retained mean is ours, too.
    label = "POUR-P"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        matrix, offset = _projection(clone(original), task, self.label)
        return folded(clone(original), self.label, matrix, offset)


@dataclass(frozen=True)
class PourDistilled(Trained):
    """POUR-D: on all of D the encoder learns the features that POUR-P would have; the head stays Original's.

        |encoder(x) - P(Original's encoder(x))|^2 / variance of Original's features

    Written after the abstract of arXiv 2511.19339; no code is public.
    """

    # Differs from the paper: after the abstract; loss, data and optimizer are ours.
    lr: LearningRate = 1e-3
    batch: Batch = 64

    label = "POUR-D"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model, teacher = clone(original), freeze(clone(original))
        matrix, offset = (part.float().to(model.device) for part in _projection(teacher, task, self.label))
        scale = encoded(teacher, task.train).var(dim=0).sum().clamp(min=1e-12)

        def loss(model: Classifier, x: Tensor, _: Tensor) -> Tensor:
            with torch.no_grad():
                target = teacher.encode(x).float() @ matrix.T + offset
            return (model.encode(x).float() - target).square().sum(dim=1).mean() / scale

        batches = self.shuffled(model, task.train, self.batch)
        return self.descend(model, batches, loss, learning=model.blocks.parameters())


def _projection(model: Classifier, task: ForgetTask, label: str) -> tuple[Tensor, Tensor]:
    """Matrix and offset of POUR-P."""
    only_classes(label, task)
    mean, weight = wide(encoded(model, task.retain)).mean(dim=0), wide(linear_head(model, label).weight)
    q = torch.linalg.qr((weight - weight.mean(dim=0))[list(task.forgotten)].T).Q
    return torch.eye(len(mean), dtype=q.dtype) - q @ q.T, q @ (q.T @ mean)
