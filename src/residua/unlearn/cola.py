"""COLA and COLA+: collapse the features of what is forgotten into those of what is kept, then align."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, reinitialise
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.losses import supervised_contrastive
from residua.training.settings import (
    Batch,
    Choice,
    Count,
    Crop,
    Epochs,
    Flip,
    ForgetBatch,
    Rate,
    RetainBatch,
    Scheduled,
    Temperature,
    check_settings,
)
from residua.training.streams import Contrasted, SideBySide, likeliest, other_labels, shuffled

Pseudo = Literal["original", "current"]


@dataclass(frozen=True)
class Cola:
    """Collapse: supervised contrastive loss on the encoder's output, retain samples only. The forgotten
    class has no cluster of its own to keep, and its features fall into the others'. Align: a fresh
    head, and cross-entropy on the whole network. Adam in both, and each goes through the whole schedule.

    The paper leaves the temperature open; 0.07 on the unit sphere, without a projector, is SupCon's.
    """

    collapse_epochs: Annotated[int, Epochs("Epochs of the collapse phase.", stronger="more")] = 10
    align_epochs: Annotated[int, Epochs("Epochs of the align phase.")] = 10
    collapse_lr: Annotated[float, Rate("Learning rate of the collapse phase.", stronger="more")] = 2e-4
    align_lr: Annotated[float, Rate("Learning rate of the align phase.")] = 5e-6
    batch: Batch = 64
    temperature: Annotated[float, Temperature("Temperature of the contrastive loss.", tune=(0.02, 0.5))] = (
        0.07
    )
    views: Annotated[int, Count("Crops of each sample in a contrastive batch.", most=2)] = 1
    balanced: Annotated[bool, Choice("Contrastive batches with equally many samples of each class.")] = False
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "COLA"
    revision = 2

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        # Differs from the reference: one view per sample by default, and anchors without a positive are left out; SupCon's
        # public code has two views and divides by zero there.
        def contrast(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            return supervised_contrastive(model.encode(x), y, self.temperature)

        descend(
            model,
            _contrasted(self, task.retain, self.batch, model.device),
            contrast,
            optimizer=torch.optim.Adam(model.blocks.parameters(), lr=self.collapse_lr),
            epochs=self.collapse_epochs,
            schedule=self.schedule,
            keep=keeper(),
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

    collapse_epochs: Annotated[int, Epochs("Epochs of the collapse phase.", stronger="more")] = 10
    align_epochs: Annotated[int, Epochs("Epochs of the align phase.")] = 10
    collapse_lr: Annotated[float, Rate("Learning rate of the collapse phase.", stronger="more")] = 2e-4
    align_lr: Annotated[float, Rate("Learning rate of the align phase.")] = 1e-4
    retain_batch: RetainBatch = 32
    forget_batch: ForgetBatch = 64
    temperature: Annotated[float, Temperature("Temperature of the contrastive loss.", tune=(0.02, 0.5))] = (
        0.07
    )
    pseudo: Annotated[Pseudo, Choice("Whose most likely other label a forget sample gets.")] = "original"
    views: Annotated[int, Count("Crops of each sample in a contrastive batch.", most=2)] = 1
    balanced: Annotated[bool, Choice("Contrastive batches with equally many samples of each class.")] = False
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "COLA+"
    revision = 2

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        teacher = freeze(clone(original))
        allowed = other_labels(task.classes, task.forgotten).to(model.device)

        def contrast(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor) -> Tensor:
            z, z_f = model.encode(torch.cat([x, x_f])).split([len(x), len(x_f)])
            # Differs from the paper: by default the label comes from Original, as in the paper's text; its algorithm takes
            # it from the model as it is (`pseudo="current"`).
            with torch.no_grad():
                logits = teacher(x_f) if self.pseudo == "original" else model.head(z_f)
                other = likeliest(logits, allowed[y_f])
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
            schedule=self.schedule,
            keep=keeper(),
        )
        _align(self, model, task.retain, self.retain_batch)
        return model


def _contrasted(settings: Cola | ColaPlus, split: Split, batch: int, device: torch.device) -> Contrasted:
    return Contrasted(split, batch, device, settings.crop, settings.flip, settings.views, settings.balanced)


def _align(settings: Cola | ColaPlus, model: Classifier, retain: Split, batch: int) -> None:
    descend(
        model,
        shuffled(retain, batch, model.device, settings.crop, settings.flip),
        optimizer=torch.optim.Adam(model.parameters(), lr=settings.align_lr),
        epochs=settings.align_epochs,
        schedule=settings.schedule,
        keep=keeper(),
    )
