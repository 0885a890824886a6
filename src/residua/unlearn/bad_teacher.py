"""Bad-T: learn from an incompetent teacher what to forget (Chundawat et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, reinitialise
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.losses import distillation
from residua.training.settings import (
    Batch,
    Crop,
    Epochs,
    Flip,
    Rate,
    Scheduled,
    Share,
    Temperature,
    check_settings,
)
from residua.training.streams import shuffled


@dataclass(frozen=True)
class BadTeacher:
    """KL to a randomly drawn network on forget samples, to Original on retain samples.

    Both teachers are in eval mode. Batches come from all of D, or from the forget set and a random
    `retain_share` of the retain set, which gives the forget set more weight.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 10
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 1e-5
    batch: Batch = 256
    temperature: Annotated[
        float, Temperature("Temperature of the softmax that is matched.", tune=(0.05, 4.0))
    ] = 1.0
    retain_share: Annotated[float, Share("Share of the retain set that is used.")] = 1.0
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "Bad-T"

    def __post_init__(self) -> None:
        check_settings(self)

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
            schedule=self.schedule,
            keep=keeper(),
        )
        return model
