"""Base classes of the methods that train: shared fields, their check, and calls of the training loop.

A method that trains once inherits from `Sgd`, `SgdOrAdam` or `Trained` (Adam), one that trains in phases from `Descent`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from residua.data.split import Batches, Split
from residua.models.classifier import Classifier
from residua.training import settings
from residua.training.keeping import keeper
from residua.training.loop import Adam, BatchSource, Loss, cross_entropy, descend, optimizer_for
from residua.training.streams import shuffled


@dataclass(frozen=True)
class Descent(settings.Checked):
    """Schedule and augmentation of a training."""

    schedule: settings.Scheduled = "constant"
    crop: settings.Crop = 4
    flip: settings.Flip = True

    def shuffled(self, model: Classifier, split: Split, batch: int, *, keep_last: bool = False) -> Batches:
        """Augmented batches of a split in a fresh order each epoch, on the model's device."""
        return shuffled(split, batch, model.device, self.crop, self.flip, keep_last)

    def phase(
        self,
        model: Classifier,
        batches: BatchSource,
        loss: Loss = cross_entropy,
        *,
        optimizer: torch.optim.Optimizer,
        epochs: int,
        **more: Any,
    ) -> Classifier:
        """Train the model in place by `descend`, which takes `more`, and return it; a study can resume the training."""
        options = {"schedule": self.schedule, "keep": keeper()} | more
        descend(model, batches, loss, optimizer=optimizer, epochs=epochs, **options)
        return model


@dataclass(frozen=True)
class _Pace:
    """Fields that come first in every method that trains once."""

    epochs: settings.Passes = 10
    lr: settings.LearningRate = 1e-5


@dataclass(frozen=True)
class Trained(Descent, _Pace):
    """A single training; with Adam, unless a subclass builds another optimizer."""

    def built(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of these parameters."""
        return Adam(parameters, lr=self.lr)

    def descend(
        self,
        model: Classifier,
        batches: BatchSource,
        loss: Loss = cross_entropy,
        *,
        learning: Iterable[nn.Parameter] | None = None,
        **more: Any,
    ) -> Classifier:
        """Train the model, or only its `learning` parameters, with this method's optimizer, epochs and schedule."""
        optimizer = self.built(model.parameters() if learning is None else learning)
        return self.phase(model, batches, loss, optimizer=optimizer, epochs=self.epochs, **more)


@dataclass(frozen=True)
class Sgd(Trained):
    """A single training with SGD."""

    momentum: settings.Momentum = 0.9
    weight_decay: settings.WeightDecay = 5e-4

    def built(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return optimizer_for("sgd", parameters, self.lr, self.momentum, self.weight_decay)


def keep_statistics(model: nn.Module) -> None:
    """Let every BatchNorm normalise the next batch by the statistics that it has, and keep them."""
    for part in model.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()


@dataclass(frozen=True)
class SgdOrAdam(Sgd):
    """A single training with SGD, or with Adam, which ignores momentum and weight decay."""

    optimizer: settings.Optimizer = "sgd"

    def built(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return optimizer_for(self.optimizer, parameters, self.lr, self.momentum, self.weight_decay)
