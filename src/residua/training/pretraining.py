"""Pretraining: the training of Original and of Retrain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from residua.data.preprocessing import of_split
from residua.data.split import Augmentation, Split
from residua.device import Precision
from residua.errors import InputError
from residua.models.classifier import Classifier, clone
from residua.training import settings
from residua.training.keeping import keeper
from residua.training.loop import SGD, Loss, cross_entropy, descend


@dataclass(frozen=True)
class Pretraining(settings.Checked):
    """Training of Original on D, and of Retrain on the retain set: SGD with momentum, crop and flip.

    The defaults are the paper's for CIFAR and ResNet; `recipes.pretraining` has the others.
    """

    epochs: Annotated[int, settings.Epochs("Passes over the data.", tune=None)] = 300
    batch: settings.Batch = 128
    lr: Annotated[float, settings.Rate("Learning rate.", tune=None)] = 0.1
    momentum: settings.Momentum = 0.9
    weight_decay: settings.WeightDecay = 5e-4
    schedule: Annotated[settings.Schedule, settings.Choice("Learning rate after the warm-up.")] = "cosine"
    warmup: Annotated[float, settings.Weight("Fraction of the training in which the learning rate rises.", below=1)] = (
        0.0
    )
    nesterov: Annotated[bool, settings.Choice("Nesterov's momentum.")] = False
    clip: Annotated[float | None, settings.Weight("Largest norm of the gradient; any if not given.")] = None
    crop: settings.Crop = 4
    flip: settings.Flip = True
    precision: Annotated[
        Precision, settings.Choice("Number format of the arithmetic; auto takes bfloat16 where it pays.")
    ] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise InputError("nesterov is on but momentum is 0; give a momentum or turn nesterov off")

    def __call__(self, model: Classifier, split: Split, loss: Loss = cross_entropy) -> Classifier:
        """A trained copy of `model`.

        Args:
            model: Network to start from; it is not changed.
            split: Training data; the copy remembers its preprocessing.
            loss: What is minimised.
        """
        trained = clone(model)
        optimizer = SGD(
            trained.parameters(),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
        batches = split.batches(
            self.batch, shuffle=True, augment=Augmentation(self.crop, self.flip), drop_last=True, device=trained.device
        )
        descend(
            trained,
            batches,
            loss,
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
