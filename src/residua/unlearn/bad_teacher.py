"""Bad-T: learn from an incompetent teacher what to forget (Chundawat et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.classifier import Classifier, clone, freeze, reinitialise
from residua.errors import InputError
from residua.losses import distillation
from residua.streams import shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class BadTeacher:
    """KL to a randomly drawn network on forget samples, to Original on retain samples.

    Both teachers are in eval mode. Batches come from all of D, or from the forget set and a random
    `retain_share` of the retain set, which gives the forget set more weight.
    """

    epochs: int = 10
    lr: float = 1e-5
    batch: int = 256
    temperature: float = 1.0
    retain_share: float = 1.0
    crop: int = 4
    flip: bool = True

    label = "Bad-T"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.retain_share <= 1:
            raise InputError(f"retain_share is {self.retain_share}, expected above 0 and up to 1")

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        good = freeze(clone(original))
        bad = freeze(reinitialise(clone(original)))
        kept = max(1, round(self.retain_share * len(task.retain)))
        retain = task.retain.subset(torch.randperm(len(task.retain))[:kept])
        is_forgotten = torch.cat([torch.zeros(len(retain)), torch.ones(len(task.forget))])
        everything = retain.joined(task.forget).relabel(is_forgotten)

        def loss(model: Classifier, x: Tensor, forget: Tensor) -> Tensor:
            with torch.no_grad():
                target = torch.where(forget[:, None] == 1, bad(x).float(), good(x).float())
            return distillation(model(x), target, self.temperature)

        descend(
            model,
            shuffled(everything, self.batch, model.device, self.crop, self.flip),
            loss,
            optimizer=torch.optim.Adam(model.parameters(), lr=self.lr),
            epochs=self.epochs,
        )
        return model
