"""RL: teach wrong answers for the forget set (Golatkar et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.losses import cross_entropy_in_turn
from residua.training.settings import (
    Crop,
    Epochs,
    Flip,
    ForgetBatch,
    Momentum,
    Rate,
    RetainBatch,
    Scheduled,
    WeightDecay,
    WrongLabels,
    check_settings,
)
from residua.training.streams import wrong_labels, wrong_then_right


@dataclass(frozen=True)
class RandomLabel:
    """Each epoch: the forget set under labels drawn again, then the retain set; cross-entropy.

    `labels` are drawn from the other, not forgotten classes, or (`uniform`, as in the public code) from all of them.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 7
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 1e-5
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 16
    labels: WrongLabels = "other"
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-4
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "RL"

    def __post_init__(self) -> None:
        check_settings(self)

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
        descend(
            model,
            batches,
            cross_entropy_in_turn,
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
            schedule=self.schedule,
            keep=keeper(),
        )
        return model
