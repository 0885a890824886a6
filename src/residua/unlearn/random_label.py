"""RL and SALUN: teach wrong answers for the forget set, with all weights or with those that matter to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.device import safe_kernels
from residua.models.classifier import Classifier, clone
from residua.training.losses import cross_entropy_in_turn
from residua.training.settings import Epochs, ForgetBatch, LearningRate, Passes, RetainBatch, Share, WrongLabels
from residua.training.streams import wrong_labels, wrong_then_right
from residua.unlearn._sgd import Sgd, SgdOrAdam


@dataclass(frozen=True)
class RandomLabel(SgdOrAdam):
    """Teach wrong answers for the forget set (Golatkar et al. 2020).

    Each epoch: the forget set under labels drawn again, then the retain set; cross-entropy.

    `labels` are drawn from the other, not forgotten classes, or (`uniform`, as in the public code) from all of them.
    Public code has SGD or Adam.
    """

    epochs: Passes = 7
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 16
    labels: WrongLabels = "other"

    label = "RL"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        # Differs from the reference: by default labels are drawn from the classes that are not forgotten; the public
        # code draws from all classes (`labels="uniform"`).
        allowed = wrong_labels(self.labels, task.classes, task.forgotten)
        # Differs from the reference: the forget set always comes before the retain set, as in the public code for
        # CIFAR-10; for CIFAR-100 it shuffles both into one.
        batches = wrong_then_right(
            task, allowed, self.forget_batch, self.retain_batch, model.device, self.crop, self.flip
        )
        return self.descend(model, batches, cross_entropy_in_turn)


@dataclass(frozen=True)
class Saliency(Sgd):
    """Random labels, but only the weights that matter to the forget set move (Fan et al. 2024).

    The fraction `share` of weights with the largest |gradient of the forget loss| learn as in RL; all others
    stay exactly where they were, whatever momentum and weight decay would do to them.

    `labels` are drawn from all classes, as in the public code, or from the `other`, not forgotten ones, as RL's
    are by default.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more", tune=(1, 15))] = 10
    lr: LearningRate = 5e-4
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 16
    labels: WrongLabels = "uniform"
    share: Annotated[float, Share("Fraction of the weights that may move.")] = 0.5

    label = "SALUN"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        mask = salient(model, task.forget, self.share)
        before = [p.detach().clone() for p in model.parameters()]
        allowed = wrong_labels(self.labels, task.classes, task.forgotten)
        # Differs from the reference: the forget set always comes before the retain set, as in the public code for
        # CIFAR-10; for CIFAR-100 it shuffles both into one.
        batches = wrong_then_right(
            task, allowed, self.forget_batch, self.retain_batch, model.device, self.crop, self.flip
        )

        # Differs from the reference: weights outside of the mask stay exactly where they were; until February 2026 momentum
        # and weight decay moved them in the public code.
        @torch.no_grad()
        def hold() -> None:
            for p, moves, kept in zip(model.parameters(), mask, before, strict=True):
                p.copy_(torch.where(moves, p, kept))

        return self.descend(model, batches, cross_entropy_in_turn, after_step=hold)


def salient(model: Classifier, forget: Split, share: float) -> list[Tensor]:
    """For each parameter a mask of its entries that are among the fraction `share` with the largest gradients."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in forget.batches(256, device=model.device):
        with safe_kernels(model):
            loss = F.cross_entropy(model(x), y, reduction="sum")
            gradients = torch.autograd.grad(loss, list(model.parameters()))
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += gradient
    size = torch.cat([gradient.abs().flatten() for gradient in total])
    chosen = torch.zeros_like(size, dtype=torch.bool)
    chosen[size.topk(max(1, round(share * len(size)))).indices] = True
    parts = chosen.split([p.numel() for p in model.parameters()])
    return [part.view_as(p) for part, p in zip(parts, model.parameters(), strict=True)]
