"""l1-sparse: fine-tune towards few weights (Jia et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.classifier import Classifier, clone
from residua.streams import shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class L1Sparse:
    """CE(retain) + a_e ||theta||_1, with a_e falling linearly from alpha to 0 over the epochs."""

    epochs: int = 10
    lr: float = 2e-4
    batch: int = 64
    alpha: float = 1e-4
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "l1-sparse"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        retain = shuffled(task.retain, self.batch, model.device, self.crop, self.flip)
        step = count()

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            epoch = next(step) // len(retain)
            size = torch.stack([p.abs().sum() for p in model.parameters()]).sum()
            return F.cross_entropy(model(x), y) + self.alpha * (1 - epoch / self.epochs) * size

        descend(
            model,
            retain,
            loss,
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
        )
        return model
