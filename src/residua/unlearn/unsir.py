"""UNSIR: noise that undoes a class, then repair (Tarun et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.device import safe_kernels
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, freeze
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.settings import (
    Count,
    Crop,
    Epochs,
    Flip,
    ForgetBatch,
    Rate,
    RetainBatch,
    Scheduled,
    Weight,
    check_settings,
)
from residua.training.streams import SideBySide, shuffled


@dataclass(frozen=True)
class Unsir:
    """Noise images n_c for each forgotten class c that Original is worst at,

        max_n  CE(Original(n_c), c) - penalty ||n_c||^2,

    are taught as c together with retain samples (impair); then retain samples alone (repair). ||n_c||^2 sums over the
    pixels of an image; both terms are means over images. Each phase goes through the whole schedule.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 1
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 2e-2
    repair_epochs: Annotated[int, Epochs("Epochs of the repair.")] = 1
    repair_lr: Annotated[float, Rate("Learning rate of the repair.")] = 1e-2
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 64
    noise_steps: Annotated[int, Count("Steps in which the noise is learned.", least=0)] = 40
    noise_lr: Annotated[float, Rate("Learning rate of the noise.", tune=None)] = 0.1
    penalty: Annotated[float, Weight("Weight that keeps the noise small.")] = 0.1
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "UNSIR"
    revision = 2
    scenarios = ("class",)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        if task.scenario != "class":
            raise InputError(
                "UNSIR cannot forget random samples: its noise undoes a whole class, and theirs are "
                "retained; choose another method"
            )
        model = clone(original)
        retain = shuffled(task.retain, self.retain_batch, model.device, self.crop, self.flip)
        # Differs from the reference: noise is learned against Original as it answers, in eval mode; the public code
        # leaves it in train mode, where the noise moves the statistics of its norms too.
        noise = self._noise(freeze(clone(original)), task)

        def impair(model: Classifier, x: Tensor, y: Tensor, n: Tensor, c: Tensor) -> Tensor:
            return F.cross_entropy(model(torch.cat([x, n])), torch.cat([y, c]))

        # Differs from the reference: every step has a batch of noise beside one of all retain samples; the public code
        # shuffles twenty batches of noise per class among a subset of the retain samples.
        descend(
            model,
            SideBySide(retain, noise),
            impair,
            optimizer=torch.optim.Adam(model.parameters(), lr=self.lr),
            epochs=self.epochs,
            schedule=self.schedule,
            keep=keeper(),
        )
        descend(
            model,
            retain,
            optimizer=torch.optim.Adam(model.parameters(), lr=self.repair_lr),
            epochs=self.repair_epochs,
            schedule=self.schedule,
            keep=keeper(),
        )
        return model

    def _noise(self, teacher: Classifier, task: ForgetTask) -> list[tuple[Tensor, Tensor]]:
        """One batch of noise for each forgotten class."""
        batches = []
        for c in task.forgotten:
            start = torch.randn(self.forget_batch, *task.forget.shape).to(teacher.device)
            noise = nn.Parameter(start)
            # Differs from the reference: noise is taught as the class that it was made for; the public code labels all
            # noise as class 0.
            label = torch.full((self.forget_batch,), c, device=teacher.device)
            optimizer = torch.optim.Adam([noise], lr=self.noise_lr)
            for _ in range(self.noise_steps):
                optimizer.zero_grad(set_to_none=True)
                with safe_kernels(teacher):
                    size = noise.square().sum(dim=(1, 2, 3)).mean()
                    loss = -F.cross_entropy(teacher(noise), label) + self.penalty * size
                    loss.backward()
                optimizer.step()
            batches.append((noise.detach(), label))
        return batches
