"""SCRUB: disobey the teacher on the forget set, obey it on the retain set (Kurmanji et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training.keeping import keeper
from residua.training.loop import Course, descend
from residua.training.losses import distillation
from residua.training.schedules import rate
from residua.training.settings import (
    Crop,
    Epochs,
    Flip,
    ForgetBatch,
    Momentum,
    Rate,
    RetainBatch,
    Scheduled,
    Temperature,
    Weight,
    WeightDecay,
    check_settings,
)
from residua.training.streams import InTurn, shuffled


@dataclass(frozen=True)
class Scrub:
    """In each of the first `forget_epochs` epochs one pass over forget that maximises KL_T(Original,
    model), and in every epoch one pass over retain that minimises

        gamma CE + alpha KL_T,       KL_T = T^2 KL(softmax(o / T) || softmax(u / T)).

    The schedule runs over all epochs: by default the rate is divided by ten after the third, the fifth and the ninth, as
    in the public code. The paper's trainings for classes end before that.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 3
    forget_epochs: Annotated[
        int, Epochs("Epochs in which the forget set is passed too.", stronger="more")
    ] = 2
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 5e-4
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 256
    alpha: Annotated[
        float, Weight("Weight of the divergence from Original on the retain set.", tune=(1e-4, 1.0))
    ] = 1e-3
    gamma: Annotated[float, Weight("Weight of the cross-entropy on the retain set.")] = 0.99
    temperature: Annotated[float, Temperature("Temperature of the softmax that is matched.")] = 4.0
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-4
    schedule: Scheduled = "steps"
    crop: Crop = 4
    flip: Flip = True

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
            logits = model(x)
            apart = distillation(logits, taught, self.temperature)
            return -apart if forgetting else self.gamma * F.cross_entropy(logits, y) + self.alpha * apart

        both = min(self.forget_epochs, self.epochs)
        for batches, before, epochs in (
            (InTurn(forget, retain), 0, both),
            (retain, both, self.epochs - both),
        ):
            descend(
                model,
                batches,
                loss,
                optimizer=optimizer,
                epochs=epochs,
                schedule=self._course(before),
                keep=keeper(),
            )
        return model

    def _course(self, before: int) -> Course:
        """What is left of the schedule after so many epochs."""
        return lambda done: rate(self.schedule, before + done, epochs=self.epochs)
