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
from residua.training import settings
from residua.training.loop import Adam
from residua.training.streams import SideBySide
from residua.unlearn._sgd import Trained


@dataclass(frozen=True)
class Unsir(Trained):
    """Noise images n_c for each forgotten class c that Original is worst at,

        max_n  CE(Original(n_c), c) - penalty ||n_c||^2,

    are taught as c together with retain samples (impair); then retain samples alone (repair). ||n_c||^2 sums over the
    pixels of an image; both terms are means over images. Each phase goes through the whole schedule.
    """

    epochs: settings.Passes = 1
    lr: settings.LearningRate = 2e-2
    repair_epochs: Annotated[int, settings.Epochs("Epochs of the repair.")] = 1
    repair_lr: Annotated[float, settings.Rate("Learning rate of the repair.")] = 1e-2
    retain_batch: settings.RetainBatch = 64
    forget_batch: settings.ForgetBatch = 64
    noise_steps: Annotated[int, settings.Count("Steps in which the noise is learned.", least=0)] = 40
    noise_lr: Annotated[float, settings.Rate("Learning rate of the noise.", tune=None)] = 0.1
    penalty: Annotated[float, settings.Weight("Weight that keeps the noise small.")] = 0.1

    label = "UNSIR"
    revision = 2
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        if task.scenario != "class":
            raise InputError(
                "UNSIR cannot forget random samples: its noise undoes a whole class, and theirs are "
                "retained; choose another method"
            )
        model = clone(original)
        retain = self.shuffled(model, task.retain, self.retain_batch)
        # Differs from the reference: noise is learned against Original as it answers, in eval mode; the public code
        # leaves it in train mode, where the noise moves the statistics of its norms too.
        noise = self._noise(freeze(clone(original)), task)

        def impair(model: Classifier, x: Tensor, y: Tensor, n: Tensor, c: Tensor) -> Tensor:
            return F.cross_entropy(model(torch.cat([x, n])), torch.cat([y, c]))

        # Differs from the reference: every step has a batch of noise beside one of all retain samples; the public code
        # shuffles twenty batches of noise per class among a subset of the retain samples.
        self.descend(model, SideBySide(retain, noise), impair)
        repair = Adam(model.parameters(), lr=self.repair_lr)
        return self.phase(model, retain, optimizer=repair, epochs=self.repair_epochs)

    def _noise(self, teacher: Classifier, task: ForgetTask) -> list[tuple[Tensor, Tensor]]:
        """One batch of noise for each forgotten class."""
        batches = []
        for c in task.forgotten:
            start = torch.randn(self.forget_batch, *task.forget.shape).to(teacher.device)
            noise = nn.Parameter(start)
            # Differs from the reference: noise is taught as the class that it was made for; the public code labels all
            # noise as class 0.
            label = torch.full((self.forget_batch,), c, device=teacher.device)
            optimizer = Adam([noise], lr=self.noise_lr)
            for _ in range(self.noise_steps):
                optimizer.zero_grad(set_to_none=True)
                with safe_kernels(teacher):
                    size = noise.square().sum(dim=(1, 2, 3)).mean()
                    loss = -F.cross_entropy(teacher(noise), label) + self.penalty * size
                    loss.backward()
                optimizer.step()
            batches.append((noise.detach(), label))
        return batches
