"""EU-k and CF-k: only the last k layers learn again from scratch, or go on learning (Goel et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, freeze, reinitialise, thaw
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.schedules import rate
from residua.training.settings import (
    Batch,
    Count,
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
class ExactLast:
    """EU-k: the last k layers are drawn again and trained on the retain set; the rest stays, bit for bit.

    A layer is a convolution or a linear map, counted from the end in the order of definition,
    shortcuts included. Norms between them learn too, but are neither counted nor drawn again. So
    k = 10 reaches into layer3 of ResNet-18 and stays in layer4 of ResNet-50.

    As in the public code the learning rate falls from `lr` to `lowest_lr` over 1, then 2, 4, 8, ... epochs, and gradients
    are clipped. An `lr` that is already below `lowest_lr` stays.
    """

    k: Annotated[int, Count("How many of the last layers.")] = 5
    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more", tune=(1, 20))] = 14
    lr: Annotated[float, Rate("Learning rate.", stronger="more", tune=(1e-4, 1.0))] = 1e-2
    batch: Batch = 64
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-5
    schedule: Scheduled = "restarts"
    lowest_lr: Annotated[float, Rate("Learning rate that cosines fall to.", tune=None)] = 5e-3
    clip: Annotated[float | None, Weight("Largest norm of the gradient; any if not given.")] = 10.0
    crop: Crop = 4
    flip: Flip = True

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def label(self) -> str:
        return f"EU-{self.k}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _train_last(self, original, task, redraw=True)


@dataclass(frozen=True)
class CatastrophicLast:
    """CF-k: as EU-k, but the last k layers start from Original's weights."""

    k: Annotated[int, Count("How many of the last layers.")] = 5
    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more", tune=(1, 20))] = 14
    lr: Annotated[float, Rate("Learning rate.", stronger="more", tune=(1e-4, 1.0))] = 1e-2
    batch: Batch = 64
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 5e-5
    schedule: Scheduled = "restarts"
    lowest_lr: Annotated[float, Rate("Learning rate that cosines fall to.", tune=None)] = 5e-3
    clip: Annotated[float | None, Weight("Largest norm of the gradient; any if not given.")] = 10.0
    crop: Crop = 4
    flip: Flip = True

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def label(self) -> str:
        return f"CF-{self.k}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _train_last(self, original, task, redraw=False)


def _train_last(
    settings: ExactLast | CatastrophicLast, original: Classifier, task: ForgetTask, redraw: bool
) -> Classifier:
    model = freeze(clone(original))
    for part in last_layers(model, settings.k):
        _thaw_own(part)
        if redraw and isinstance(part, nn.Conv2d | nn.Linear):
            reinitialise(part)
    learning = [p for p in model.parameters() if p.requires_grad]
    floor = settings.lowest_lr / settings.lr if settings.lr > settings.lowest_lr else 1.0
    descend(
        model,
        shuffled(task.retain, settings.batch, model.device, settings.crop, settings.flip),
        optimizer=torch.optim.SGD(
            learning, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        ),
        epochs=settings.epochs,
        schedule=lambda done: rate(settings.schedule, done, epochs=settings.epochs, floor=floor),
        clip=settings.clip,
        keep=keeper(),
    )
    return thaw(model)


def last_layers(model: nn.Module, k: int) -> list[nn.Module]:
    """The last k convolutions and linear maps in the order of definition, and the norms behind the first."""
    parts: list[nn.Module] = []
    layers = 0
    for part in reversed(list(model.modules())):
        if next(part.parameters(recurse=False), None) is None:
            continue
        parts.append(part)
        layers += isinstance(part, nn.Conv2d | nn.Linear)
        if layers == k:
            return parts
    raise InputError(f"k is {k}, expected 1 to {layers}: this network has {layers} layers")


def _thaw_own(part: nn.Module) -> None:
    part.__dict__.pop("residua_frozen", None)
    for parameter in part.parameters(recurse=False):
        parameter.requires_grad_(True)
