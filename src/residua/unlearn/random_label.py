"""RL: teach wrong answers for the forget set (Golatkar et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from residua.classifier import Classifier, clone
from residua.errors import InputError
from residua.losses import cross_entropy_in_turn
from residua.streams import other_labels, wrong_then_right
from residua.task import ForgetTask
from residua.training import check_settings, descend

Labels = Literal["other", "uniform"]


@dataclass(frozen=True)
class RandomLabel:
    """Each epoch: the forget set under labels drawn anew, then the retain set; cross-entropy.

    `labels` are drawn from the other, not forgotten classes, or (`uniform`, as in the public code
    for CIFAR-10) from all of them.
    """

    epochs: int = 7
    lr: float = 1e-5
    retain_batch: int = 64
    forget_batch: int = 16
    labels: Labels = "other"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "RL"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.labels not in ("other", "uniform"):
            raise InputError(f"labels {self.labels!r} is unknown; choose other or uniform")

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        allowed = (
            other_labels(task.classes, task.forgotten)
            if self.labels == "other"
            else torch.ones(task.classes, task.classes)
        )
        batches = wrong_then_right(
            task, allowed, self.forget_batch, self.retain_batch, model.device, self.crop, self.flip
        )
        descend(
            model,
            batches,
            cross_entropy_in_turn,
            optimizer=torch.optim.SGD(
                model.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            epochs=self.epochs,
        )
        return model
