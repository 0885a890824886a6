"""FT: go on training on the retain set, and hope that the rest fades."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from residua.classifier import Classifier, clone
from residua.streams import shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class FineTune:
    """Cross-entropy on the retain set with Adam."""

    epochs: int = 25
    lr: float = 1e-5
    batch: int = 64
    crop: int = 4
    flip: bool = True

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
        )
        return model
