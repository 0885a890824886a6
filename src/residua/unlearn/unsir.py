"""UNSIR: noise that undoes a class, then repair (Tarun et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.classifier import Classifier, clone, freeze
from residua.errors import InputError
from residua.streams import SideBySide, shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class Unsir:
    """Noise images n_c for each forgotten class c that Original is worst at,

        max_n  CE(Original(n_c), c) - penalty mean(n_c^2),

    are taught as c together with retain samples (impair); then retain samples alone (repair).
    """

    epochs: int = 1
    lr: float = 2e-2
    repair_epochs: int = 1
    repair_lr: float = 1e-2
    retain_batch: int = 64
    forget_batch: int = 64
    noise_steps: int = 40
    noise_lr: float = 0.1
    penalty: float = 0.1
    crop: int = 4
    flip: bool = True

    label = "UNSIR"

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
        noise = self._noise(freeze(clone(original)), task)

        def impair(model: Classifier, x: Tensor, y: Tensor, n: Tensor, c: Tensor) -> Tensor:
            return F.cross_entropy(model(torch.cat([x, n])), torch.cat([y, c]))

        descend(
            model,
            SideBySide(retain, noise),
            impair,
            optimizer=torch.optim.Adam(model.parameters(), lr=self.lr),
            epochs=self.epochs,
        )
        descend(
            model,
            retain,
            optimizer=torch.optim.Adam(model.parameters(), lr=self.repair_lr),
            epochs=self.repair_epochs,
        )
        return model

    def _noise(self, teacher: Classifier, task: ForgetTask) -> list[tuple[Tensor, Tensor]]:
        """One batch of noise for each forgotten class."""
        found = []
        for c in task.forgotten:
            start = torch.randn(self.forget_batch, *task.forget.shape).to(teacher.device)
            noise = nn.Parameter(start)
            label = torch.full((self.forget_batch,), c, device=teacher.device)
            optimizer = torch.optim.Adam([noise], lr=self.noise_lr)
            for _ in range(self.noise_steps):
                optimizer.zero_grad(set_to_none=True)
                loss = -F.cross_entropy(teacher(noise), label) + self.penalty * noise.square().mean()
                loss.backward()
                optimizer.step()
            found.append((noise.detach(), label))
        return found
