"""Bad-T: learn from an incompetent teacher what to forget (Chundawat et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, reinitialise
from residua.training.losses import distillation
from residua.training.settings import Batch, Share, Temperature
from residua.unlearn._sgd import Trained


@dataclass(frozen=True)
class BadTeacher(Trained):
    """KL to a randomly drawn network on forget samples, to Original on retain samples.

    Both teachers are in eval mode. Batches come from all of D, or from the forget set and a random
    fraction `retain_share` of the retain set, which gives the forget set more weight.
    """

    batch: Batch = 256
    temperature: Annotated[float, Temperature("Temperature of the softmax that is matched.")] = 1.0
    retain_share: Annotated[float, Share("Fraction of the retain set that is used.")] = 1.0

    label = "Bad-T"

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

        return self.descend(model, self.shuffled(model, everything, self.batch), loss)
