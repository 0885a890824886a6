"""EU-k and CF-k: only the last k layers learn anew, or learn on (Goel et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from residua.classifier import Classifier, clone, freeze, reinitialise, thaw
from residua.errors import InputError
from residua.streams import shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class ExactLast:
    """EU-k: the last k layers are drawn anew and trained on the retain set; the rest stays, bit for bit.

    A layer is a convolution or a linear map, counted from the end in the order of definition,
    shortcuts included. Norms between them learn too, but are neither counted nor drawn anew. So
    k = 10 reaches into layer3 of ResNet-18 and stays in layer4 of ResNet-50.
    """

    k: int = 5
    epochs: int = 14
    lr: float = 1e-2
    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def label(self) -> str:
        return f"EU-{self.k}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _train_last(self, original, task, anew=True)


@dataclass(frozen=True)
class CatastrophicLast:
    """CF-k: as EU-k, but the last k layers start from Original's weights."""

    k: int = 5
    epochs: int = 14
    lr: float = 1e-2
    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def label(self) -> str:
        return f"CF-{self.k}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _train_last(self, original, task, anew=False)


def _train_last(
    settings: ExactLast | CatastrophicLast, original: Classifier, task: ForgetTask, anew: bool
) -> Classifier:
    model = freeze(clone(original))
    for part in last_layers(model, settings.k):
        _thaw_own(part)
        if anew and isinstance(part, nn.Conv2d | nn.Linear):
            reinitialise(part)
    learning = [p for p in model.parameters() if p.requires_grad]
    descend(
        model,
        shuffled(task.retain, settings.batch, model.device, settings.crop, settings.flip),
        optimizer=torch.optim.SGD(
            learning, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        ),
        epochs=settings.epochs,
    )
    return thaw(model)


def last_layers(model: nn.Module, k: int) -> list[nn.Module]:
    """The last k convolutions and linear maps in the order of definition, and the norms behind the first."""
    found: list[nn.Module] = []
    layers = 0
    for part in reversed(list(model.modules())):
        if next(part.parameters(recurse=False), None) is None:
            continue
        found.append(part)
        layers += isinstance(part, nn.Conv2d | nn.Linear)
        if layers == k:
            return found
    raise InputError(f"k is {k}, expected 1 to {layers}: this network has {layers} layers")


def _thaw_own(part: nn.Module) -> None:
    part.__dict__.pop("residua_frozen", None)
    for parameter in part.parameters(recurse=False):
        parameter.requires_grad_(True)
