"""HD: only the last layer learns to be silent. It fools most tests of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, thaw
from residua.training.losses import descent_and_ascent, kl_divergence
from residua.training.settings import Batch, LearningRate, Passes, Weight
from residua.training.streams import SideBySide
from residua.unlearn._sgd import Trained


@dataclass(frozen=True)
class HeadDistillation(Trained):
    """The encoder stays as it is, bit for bit; so IDI is exactly 1.

    Whole classes: on all of D the head learns Original's answer with the forgotten classes masked,

        KL( softmax(Original(x) with -inf for each forgotten class) || softmax(head(z)) ).

    Random samples: the head descends on retain and ascends on forget,
    alpha CE(retain) - (1 - alpha) CE(forget).
    """

    epochs: Passes = 1
    lr: LearningRate = 1e-2
    batch: Batch = 128
    alpha: Annotated[
        float, Weight("Weight of the retain loss when samples are forgotten; the forget loss has 1 - alpha.", most=1)
    ] = 0.9

    label = "HD"
    revision = 2
    keeps_encoder = True
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        for part in (model.blocks, model.pool):
            freeze(part)
        teacher = freeze(clone(original.head))

        def masked(model: Classifier, x: Tensor, _: Tensor) -> Tensor:
            z = model.encode(x)
            target = teacher(z).float()
            target[:, list(task.forgotten)] = -torch.inf
            return kl_divergence(model.head(z), F.softmax(target, dim=1))

        learning = model.head.parameters()
        if task.scenario == "class":
            self.descend(model, self.shuffled(model, task.train, self.batch), masked, learning=learning)
        else:
            retain = self.shuffled(model, task.retain, self.batch)
            forget = self.shuffled(model, task.forget, self.batch, keep_last=True)
            ascent = partial(descent_and_ascent, alpha=self.alpha)
            self.descend(model, SideBySide(retain, forget), ascent, learning=learning)
        return thaw(model)
