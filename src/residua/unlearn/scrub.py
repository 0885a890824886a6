"""SCRUB: disobey the teacher on the forget set, obey it on the retain set (Kurmanji et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.classifier import Classifier, clone, freeze
from residua.losses import distillation
from residua.streams import InTurn, shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class Scrub:
    """In each of the first `forget_epochs` epochs one pass over forget that maximises KL_T(Original,
    model), and in every epoch one pass over retain that minimises

        gamma CE + alpha KL_T,       KL_T = T^2 KL(softmax(o / T) || softmax(u / T)).
    """

    epochs: int = 3
    forget_epochs: int = 2
    lr: float = 5e-4
    retain_batch: int = 64
    forget_batch: int = 256
    alpha: float = 1e-3
    gamma: float = 0.99
    temperature: float = 4.0
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "SCRUB"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        teacher = freeze(clone(original))
        forget = shuffled(task.forget, self.forget_batch, model.device, self.crop, self.flip)
        retain = shuffled(task.retain, self.retain_batch, model.device, self.crop, self.flip)
        optimizer = torch.optim.SGD(
            model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )

        def loss(model: Classifier, x: Tensor, y: Tensor, forgetting: bool = False) -> Tensor:
            with torch.no_grad():
                taught = teacher(x)
            said = model(x)
            apart = distillation(said, taught, self.temperature)
            return -apart if forgetting else self.gamma * F.cross_entropy(said, y) + self.alpha * apart

        both = min(self.forget_epochs, self.epochs)
        descend(model, InTurn(forget, retain), loss, optimizer=optimizer, epochs=both)
        descend(model, retain, loss, optimizer=optimizer, epochs=self.epochs - both)
        return model
