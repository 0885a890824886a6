"""GA: up the loss of the forget set, down that of the retain set (NegGrad+ of Kurmanji et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from residua.classifier import Classifier, clone
from residua.losses import descent_and_ascent
from residua.streams import SideBySide, shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class GradientAscent:
    """alpha CE(retain) - (1 - alpha) CE(forget), one step for each retain batch.

    The forget batches are shuffled anew each time they run out. The paper leaves alpha open; the
    public code has 0.95 and 0.9999.
    """

    epochs: int = 10
    lr: float = 2e-3
    retain_batch: int = 64
    forget_batch: int = 16
    alpha: float = 0.95
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "GA"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        retain = shuffled(task.retain, self.retain_batch, model.device, self.crop, self.flip)
        forget = shuffled(task.forget, self.forget_batch, model.device, self.crop, self.flip)
        descend(
            model,
            SideBySide(retain, forget),
            partial(descent_and_ascent, alpha=self.alpha),
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
        )
        return model
