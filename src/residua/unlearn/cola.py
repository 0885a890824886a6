"""COLA and COLA+: collapse the features of what is forgotten into those of what is kept, then align."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from residua.classifier import Classifier, clone, freeze, reinitialise
from residua.errors import InputError
from residua.losses import supervised_contrastive
from residua.split import Split
from residua.streams import Contrasted, SideBySide, likeliest, other_labels, shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend

Pseudo = Literal["original", "current"]


@dataclass(frozen=True)
class Cola:
    """Collapse: supervised contrastive loss on the encoder's output, retain samples only. The forgotten
    class has no cluster of its own to keep, and its features fall into the others'. Align: a fresh
    head, and cross-entropy on the whole network. Adam in both.

    The paper leaves the temperature open; 0.07 on the unit sphere, without a projector, is SupCon's.
    """

    collapse_epochs: int = 10
    align_epochs: int = 10
    collapse_lr: float = 2e-4
    align_lr: float = 5e-6
    batch: int = 64
    temperature: float = 0.07
    views: int = 1
    balanced: bool = False
    crop: int = 4
    flip: bool = True

    label = "COLA"

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        def contrast(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            return supervised_contrastive(model.encode(x), y, self.temperature)

        descend(
            model,
            _contrasted(self, task.retain, self.batch, model.device),
            contrast,
            optimizer=torch.optim.Adam(model.blocks.parameters(), lr=self.collapse_lr),
            epochs=self.collapse_epochs,
        )
        reinitialise(model.head)
        _align(self, model, task.retain, self.batch)
        return model


@dataclass(frozen=True)
class ColaPlus:
    """COLA for random samples: each forget sample joins the collapse under its most likely other label,
    and Original's head is kept.

    The paper's text takes that label from Original, its algorithm from the model as it is
    (`pseudo="current"`).
    """

    collapse_epochs: int = 10
    align_epochs: int = 10
    collapse_lr: float = 2e-4
    align_lr: float = 1e-4
    retain_batch: int = 32
    forget_batch: int = 64
    temperature: float = 0.07
    pseudo: Pseudo = "original"
    views: int = 1
    balanced: bool = False
    crop: int = 4
    flip: bool = True

    label = "COLA+"

    def __post_init__(self) -> None:
        _check(self)
        if self.pseudo not in ("original", "current"):
            raise InputError(f"pseudo {self.pseudo!r} is unknown; choose original or current")

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        teacher = freeze(clone(original))
        allowed = other_labels(task.classes, task.forgotten).to(model.device)

        def contrast(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor) -> Tensor:
            z, z_f = model.encode(torch.cat([x, x_f])).split([len(x), len(x_f)])
            with torch.no_grad():
                said = teacher(x_f) if self.pseudo == "original" else model.head(z_f)
                other = likeliest(said, allowed[y_f])
            return supervised_contrastive(torch.cat([z, z_f]), torch.cat([y, other]), self.temperature)

        descend(
            model,
            SideBySide(
                _contrasted(self, task.retain, self.retain_batch, model.device),
                _contrasted(self, task.forget, self.forget_batch, model.device),
            ),
            contrast,
            optimizer=torch.optim.Adam(model.blocks.parameters(), lr=self.collapse_lr),
            epochs=self.collapse_epochs,
        )
        _align(self, model, task.retain, self.retain_batch)
        return model


def _check(settings: Cola | ColaPlus) -> None:
    check_settings(settings)
    if settings.views not in (1, 2):
        raise InputError(f"views is {settings.views}, expected 1 or 2")


def _contrasted(settings: Cola | ColaPlus, split: Split, batch: int, device: torch.device) -> Contrasted:
    return Contrasted(split, batch, device, settings.crop, settings.flip, settings.views, settings.balanced)


def _align(settings: Cola | ColaPlus, model: Classifier, retain: Split, batch: int) -> None:
    descend(
        model,
        shuffled(retain, batch, model.device, settings.crop, settings.flip),
        optimizer=torch.optim.Adam(model.parameters(), lr=settings.align_lr),
        epochs=settings.align_epochs,
    )
