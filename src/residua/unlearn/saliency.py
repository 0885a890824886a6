"""SALUN: random labels, but only the weights that matter to the forget set move (Fan et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.classifier import Classifier, clone
from residua.errors import InputError
from residua.losses import cross_entropy_in_turn
from residua.split import Split
from residua.streams import other_labels, wrong_then_right
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class Saliency:
    """The `share` of weights with the largest |gradient of the forget loss| learn as in RL; all others
    stay exactly where they were, whatever momentum and weight decay would do to them.
    """

    epochs: int = 10
    lr: float = 5e-4
    retain_batch: int = 64
    forget_batch: int = 16
    share: float = 0.5
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "SALUN"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.share <= 1:
            raise InputError(f"share is {self.share}, expected above 0 and up to 1")

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        mask = salient(model, task.forget, self.share)
        before = [p.detach().clone() for p in model.parameters()]
        allowed = other_labels(task.classes, task.forgotten)
        batches = wrong_then_right(
            task, allowed, self.forget_batch, self.retain_batch, model.device, self.crop, self.flip
        )

        @torch.no_grad()
        def hold() -> None:
            for p, moves, kept in zip(model.parameters(), mask, before, strict=True):
                p.copy_(torch.where(moves, p, kept))

        descend(
            model,
            batches,
            cross_entropy_in_turn,
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
            after_step=hold,
        )
        return model


def salient(model: Classifier, forget: Split, share: float) -> list[Tensor]:
    """For each parameter, which of its entries are among the `share` with the largest gradients."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in forget.batches(256, device=model.device):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        for sum_, gradient in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            sum_ += gradient
    size = torch.cat([gradient.abs().flatten() for gradient in total])
    chosen = torch.zeros_like(size, dtype=torch.bool)
    chosen[size.topk(max(1, round(share * len(size)))).indices] = True
    parts = chosen.split([p.numel() for p in model.parameters()])
    return [part.view_as(p) for part, p in zip(parts, model.parameters(), strict=True)]
