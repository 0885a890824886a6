"""SCRUB: disobey the teacher on the forget set, obey it on the retain set (Kurmanji et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training import settings
from residua.training.loop import Course, optimizer_for, rate
from residua.training.losses import distillation
from residua.training.streams import InTurn
from residua.unlearn._sgd import Descent


@dataclass(frozen=True)
class Scrub(Descent):
    """In each of the first `forget_epochs` epochs one pass over forget that maximises KL_T(Original,
    model), and in every epoch one pass over retain that minimises

        gamma CE + alpha KL_T,       KL_T = T^2 KL(softmax(o / T) || softmax(u / T)).

    The schedule runs over all epochs: by default the rate is divided by ten after the third, the fifth and the ninth, as
    in the public code. The paper's trainings for classes end before that.
    """

    epochs: settings.Passes = 3
    forget_epochs: Annotated[int, settings.Epochs("Epochs in which the forget set is passed too.", stronger="more")] = 2
    lr: settings.LearningRate = 5e-4
    retain_batch: settings.RetainBatch = 64
    forget_batch: settings.ForgetBatch = 256
    alpha: Annotated[float, settings.Weight("Weight of the divergence from Original on the retain set.")] = 1e-3
    gamma: Annotated[float, settings.Weight("Weight of the cross-entropy on the retain set.")] = 0.99
    temperature: Annotated[float, settings.Temperature("Temperature of the softmax that is matched.")] = 4.0
    momentum: settings.Momentum = 0.9
    weight_decay: settings.WeightDecay = 5e-4
    schedule: settings.Scheduled = "steps"

    label = "SCRUB"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        teacher = freeze(clone(original))
        forget = self.shuffled(model, task.forget, self.forget_batch, keep_last=True)
        retain = self.shuffled(model, task.retain, self.retain_batch)
        optimizer = optimizer_for("sgd", model.parameters(), self.lr, self.momentum, self.weight_decay)

        def loss(model: Classifier, x: Tensor, y: Tensor, forgetting: bool = False) -> Tensor:
            with torch.no_grad():
                taught = teacher(x)
            logits = model(x)
            apart = distillation(logits, taught, self.temperature)
            return -apart if forgetting else self.gamma * F.cross_entropy(logits, y) + self.alpha * apart

        both = min(self.forget_epochs, self.epochs)
        for batches, before, epochs in ((InTurn(forget, retain), 0, both), (retain, both, self.epochs - both)):
            self.phase(model, batches, loss, optimizer=optimizer, epochs=epochs, schedule=self._course(before))
        return model

    def _course(self, before: int) -> Course:
        """The rest of the schedule after `before` epochs."""
        return lambda done: rate(self.schedule, before + done, epochs=self.epochs)
