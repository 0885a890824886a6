"""COLA and COLA+: collapse the features of forgotten data into those of retained data, then align."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, reinitialise
from residua.training import settings
from residua.training.loop import Adam, BatchSource, Loss
from residua.training.losses import supervised_contrastive
from residua.training.streams import Contrasted, SideBySide, likeliest, other_labels
from residua.unlearn._sgd import Descent

Pseudo = Literal["original", "current"]


@dataclass(frozen=True)
class _Phases:
    collapse_epochs: Annotated[int, settings.Epochs("Epochs of the collapse phase.", stronger="more")] = 10
    align_epochs: Annotated[int, settings.Epochs("Epochs of the align phase.")] = 10
    collapse_lr: Annotated[float, settings.Rate("Learning rate of the collapse phase.", stronger="more")] = 2e-4
    align_lr: Annotated[float, settings.Rate("Learning rate of the align phase.")] = 5e-6


@dataclass(frozen=True)
class _TwoPhases(Descent, _Phases):
    """Fields and phases that COLA and COLA+ share."""

    temperature: Annotated[float, settings.Temperature("Temperature of the contrastive loss.")] = 0.07
    normalise: Annotated[bool, settings.Choice("Features on the unit sphere in the contrastive loss.")] = True
    views: Annotated[int, settings.Count("Crops of each sample in a contrastive batch.", most=2)] = 1
    balanced: Annotated[bool, settings.Choice("Contrastive batches with equally many samples of each class.")] = False

    def contrasted(self, model: Classifier, split: Split, batch: int, keep_last: bool = False) -> Contrasted:
        """Batches of the contrastive loss."""
        return Contrasted(split, batch, model.device, self.crop, self.flip, self.views, self.balanced, keep_last)

    def collapse(self, model: Classifier, batches: BatchSource, loss: Loss) -> None:
        """Train the encoder."""
        optimizer = Adam(model.blocks.parameters(), lr=self.collapse_lr)
        self.phase(model, batches, loss, optimizer=optimizer, epochs=self.collapse_epochs)

    def align(self, model: Classifier, retain: Split, batch: int) -> Classifier:
        """Train the whole network with cross-entropy on the retain set."""
        optimizer = Adam(model.parameters(), lr=self.align_lr)
        batches = self.shuffled(model, retain, batch)
        return self.phase(model, batches, optimizer=optimizer, epochs=self.align_epochs)


@dataclass(frozen=True)
class Cola(_TwoPhases):
    """Collapse: supervised contrastive loss on the encoder's output, retain samples only. The forgotten
    class has no cluster of its own to keep, and its features fall into the others'. Align: a fresh
    head, and cross-entropy on the whole network. Adam in both, and each goes through the whole schedule.

    The paper leaves the temperature open; 0.07 on the unit sphere, without a projector, is SupCon's.
    """

    batch: settings.Batch = 64

    label = "COLA"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        # Differs from the paper: features are put on the unit sphere by default, as in SupCon's public code; the paper's
        # equation does not say so (`normalise=False`).
        # Differs from the reference: one view per sample by default, and anchors without a positive are left out; SupCon's
        # public code has two views and divides by zero there.
        def contrast(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            return supervised_contrastive(model.encode(x), y, self.temperature, self.normalise)

        self.collapse(model, self.contrasted(model, task.retain, self.batch), contrast)
        reinitialise(model.head)
        return self.align(model, task.retain, self.batch)


@dataclass(frozen=True)
class ColaPlus(_TwoPhases):
    """COLA for random samples: each forget sample joins the collapse under its most likely other label,
    and Original's head is kept.

    The paper's text takes that label from Original, its algorithm from the model as it is
    (`pseudo="current"`).
    """

    align_lr: Annotated[float, settings.Rate("Learning rate of the align phase.")] = 1e-4
    retain_batch: settings.RetainBatch = 32
    forget_batch: settings.ForgetBatch = 64
    pseudo: Annotated[Pseudo, settings.Choice("Model whose most likely other label a forget sample gets.")] = "original"

    label = "COLA+"
    revision = 3

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model, teacher = clone(original), freeze(clone(original))
        allowed = other_labels(task.classes, task.forgotten).to(model.device)

        def contrast(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor) -> Tensor:
            z, z_f = model.encode(torch.cat([x, x_f])).split([len(x), len(x_f)])
            # Differs from the paper: by default the label comes from Original, as in the paper's text; its algorithm takes
            # it from the model as it is (`pseudo="current"`).
            with torch.no_grad():
                logits = teacher(x_f) if self.pseudo == "original" else model.head(z_f)
                other = likeliest(logits, allowed[y_f])
            return supervised_contrastive(torch.cat([z, z_f]), torch.cat([y, other]), self.temperature, self.normalise)

        retain = self.contrasted(model, task.retain, self.retain_batch)
        forget = self.contrasted(model, task.forget, self.forget_batch, keep_last=True)
        self.collapse(model, SideBySide(retain, forget), contrast)
        return self.align(model, task.retain, self.retain_batch)
