"""Pretraining: how Original and Retrain are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.preprocessing import of_split
from residua.data.split import Augmentation, Split
from residua.device import Precision
from residua.errors import InputError
from residua.models.classifier import Classifier, clone
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.schedules import Schedule
from residua.training.settings import (
    Batch,
    Choice,
    Crop,
    Epochs,
    Flip,
    Momentum,
    Rate,
    Weight,
    WeightDecay,
    check_settings,
)


@dataclass(frozen=True)
class Pretraining:
    """How Original is trained on D, and Retrain on the retain set: SGD with momentum, crop and flip.

    The defaults are the paper's for CIFAR and ResNet; `recipes.pretraining` has the others.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", tune=None)] = 300
    batch: Batch = 128
    lr: Annotated[float, Rate("Learning rate.", tune=None)] = 0.1
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-4
    schedule: Annotated[Schedule, Choice("Learning rate after the warm-up.")] = "cosine"
    warmup: Annotated[float, Weight("Share of the training in which the learning rate rises.", below=1)] = 0.0
    nesterov: Annotated[bool, Choice("Nesterov's momentum.")] = False
    clip: Annotated[float | None, Weight("Largest norm of the gradient; any if not given.")] = None
    crop: Crop = 4
    flip: Flip = True
    precision: Annotated[
        Precision, Choice("Number format of the arithmetic; auto takes bfloat16 where it pays.")
    ] = "auto"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.nesterov and not self.momentum:
            raise InputError("nesterov is on but momentum is 0; give a momentum or turn nesterov off")

    def __call__(self, model: Classifier, split: Split) -> Classifier:
        """A trained copy of `model`."""
        trained = clone(model)
        optimizer = torch.optim.SGD(
            trained.parameters(),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
        batches = split.batches(
            self.batch,
            shuffle=True,
            augment=Augmentation(self.crop, self.flip),
            drop_last=True,
            device=trained.device,
        )
        descend(
            trained,
            batches,
            optimizer=optimizer,
            epochs=self.epochs,
            schedule=self.schedule,
            warmup=self.warmup,
            clip=self.clip,
            precision=self.precision,
            keep=keeper(),
        )
        trained.preprocessing = of_split(split)
        return trained
