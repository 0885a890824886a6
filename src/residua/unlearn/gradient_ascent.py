"""GA: up the loss of the forget set, down that of the retain set (NegGrad+ of Kurmanji et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.losses import descent_and_ascent
from residua.training.settings import (
    Crop,
    Epochs,
    Flip,
    ForgetBatch,
    Momentum,
    Rate,
    RetainBatch,
    Scheduled,
    Weight,
    WeightDecay,
    check_settings,
)
from residua.training.streams import SideBySide, shuffled


@dataclass(frozen=True)
class GradientAscent:
    """alpha CE(retain) - (1 - alpha) CE(forget), one step for each retain batch.

    The forget batches are shuffled again each time they run out. The paper leaves alpha open; the
    public code has 0.95 and 0.9999.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 10
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 2e-3
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 16
    alpha: Annotated[
        float, Weight("Weight of the retain loss; the forget loss has 1 - alpha.", most=1, tune=(0.5, 0.9999))
    ] = 0.95
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-4
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "GA"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        retain = shuffled(task.retain, self.retain_batch, model.device, self.crop, self.flip)
        forget = shuffled(task.forget, self.forget_batch, model.device, self.crop, self.flip)
        # Differs from the reference: forget batches are shuffled again whenever they run out; a cycle over the loader,
        # as in public code, would repeat its first pass.
        descend(
            model,
            SideBySide(retain, forget),
            partial(descent_and_ascent, alpha=self.alpha),
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
            schedule=self.schedule,
            keep=keeper(),
        )
        return model
