"""l1-sparse: fine-tune towards few weights (Jia et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.settings import (
    Batch,
    Crop,
    Epochs,
    Flip,
    Momentum,
    Rate,
    Scheduled,
    Weight,
    WeightDecay,
    check_settings,
)
from residua.training.streams import shuffled


@dataclass(frozen=True)
class L1Sparse:
    """CE(retain) + a_e ||theta||_1, with a_e falling linearly from alpha to 0 over the epochs."""

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 10
    lr: Annotated[float, Rate("Learning rate.", stronger="more", tune=(1e-5, 0.3))] = 2e-4
    batch: Batch = 64
    alpha: Annotated[float, Weight("Weight of the l1 norm at the beginning.", tune=(1e-6, 1e-2))] = 1e-4
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-4
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "l1-sparse"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        retain = shuffled(task.retain, self.batch, model.device, self.crop, self.flip)
        weight = self.alpha

        def fall(epoch: int) -> None:
            nonlocal weight
            weight = self.alpha * (1 - (epoch - 1) / self.epochs)

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            size = torch.stack([p.abs().sum() for p in model.parameters()]).sum()
            return F.cross_entropy(model(x), y) + weight * size

        descend(
            model,
            retain,
            loss,
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
            schedule=self.schedule,
            at_epoch=fall,
            keep=keeper(),
        )
        return model
