"""EU-k and CF-k: only the last k layers learn again from scratch, or go on learning (Goel et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, freeze, restart, thaw
from residua.training import settings
from residua.training.loop import rate
from residua.unlearn._sgd import Sgd


@dataclass(frozen=True)
class ExactLast(Sgd):
    """EU-k: the last k layers start again where Original's did and are trained on the retain set; the rest stays, bit for bit.

    A layer is a convolution or a linear map, counted from the end in the order of definition,
    shortcuts included. Norms between them learn too, but are neither counted nor drawn again. So
    k = 10 reaches into layer3 of ResNet-18 and stays in layer4 of ResNet-50.

    As in the public code the learning rate falls from `lr` to `lowest_lr` over 1, then 2, 4, 8, ... epochs, and gradients
    are clipped. An `lr` that is already below `lowest_lr` stays.
    """

    k: Annotated[int, settings.Count("Number of last layers that learn.")] = 5
    epochs: Annotated[int, settings.Epochs("Passes over the data.", stronger="more", tune=(1, 20))] = 14
    lr: Annotated[float, settings.Rate("Learning rate.", stronger="more")] = 1e-2
    batch: settings.Batch = 64
    weight_decay: settings.WeightDecay = 5e-5
    schedule: settings.Scheduled = "restarts"
    lowest_lr: Annotated[float, settings.Rate("Learning rate that cosines fall to.", tune=None)] = 5e-3
    clip: Annotated[float | None, settings.Weight("Largest norm of the gradient; any if not given.")] = 10.0

    redraws = True

    @property
    def label(self) -> str:
        return f"EU-{self.k}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        # Differs from the reference: frozen BatchNorm stays in eval mode, so that the frozen part is Original's bit for
        # bit; the public code leaves it in train mode, where its running statistics follow the retain set.
        model = freeze(clone(original))
        for part in last_layers(model, self.k):
            _thaw_own(part)
            if self.redraws and isinstance(part, nn.Conv2d | nn.Linear):
                restart(part)
        floor = self.lowest_lr / self.lr if self.lr > self.lowest_lr else 1.0
        self.descend(
            model,
            self.shuffled(model, task.retain, self.batch),
            learning=[p for p in model.parameters() if p.requires_grad],
            schedule=lambda done: rate(self.schedule, done, epochs=self.epochs, floor=floor),
            clip=self.clip,
        )
        return thaw(model)


@dataclass(frozen=True)
class CatastrophicLast(ExactLast):
    """CF-k: as EU-k, but the last k layers start from Original's weights."""

    redraws = False

    @property
    def label(self) -> str:
        return f"CF-{self.k}"


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
