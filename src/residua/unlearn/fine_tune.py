"""FT: go on training on the retain set, and hope that the rest fades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.settings import Batch, Crop, Epochs, Flip, Rate, Scheduled, check_settings
from residua.training.streams import shuffled


@dataclass(frozen=True)
class FineTune:
    """Cross-entropy on the retain set with Adam."""

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more", tune=(1, 25))] = 25
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 1e-5
    batch: Batch = 64
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "FT"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        descend(
            model,
            shuffled(task.retain, self.batch, model.device, self.crop, self.flip),
            optimizer=torch.optim.Adam(model.parameters(), lr=self.lr),
            epochs=self.epochs,
            schedule=self.schedule,
            keep=keeper(),
        )
        return model
