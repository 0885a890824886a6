"""DELETE: distil Original without the true class, from the forget set alone (Zhou et al., CVPR 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training import settings
from residua.training.losses import kl_divergence
from residua.unlearn._sgd import Sgd, keep_statistics


@dataclass(frozen=True)
class Delete(Sgd):
    """KL( softmax(Original(x) with -inf for the true class) || softmax(model(x)) ) on forget samples; every weight learns.

    HD's target, but on the forget set alone and for the whole network. Loss, optimizer and settings were read in
    shaaaaron/DELETE; results were not compared (its
    file of settings has a rate of 1e-4, its script 1e-3). Batches of one class normalise that class away; with `keep_statistics`
    every BatchNorm keeps Original's mean and variance, which the public code offers, too (`disable_bn`).
    """

    epochs: Annotated[int, settings.Epochs("Passes over the forget set.", stronger="more", tune=(1, 40))] = 20
    lr: settings.LearningRate = 1e-4
    batch: settings.Batch = 128
    weight_decay: settings.WeightDecay = 0.0
    keep_statistics: settings.KeepStatistics = False

    label = "DELETE"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model, teacher = clone(original), freeze(clone(original))

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            if self.keep_statistics:
                keep_statistics(model)
            with torch.no_grad():
                target = teacher(x).float().scatter(1, y[:, None], -torch.inf)
            return kl_divergence(model(x), F.softmax(target, dim=1))

        return self.descend(model, self.shuffled(model, task.forget, self.batch, keep_last=True), loss)
