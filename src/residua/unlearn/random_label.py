"""RL: teach wrong answers for the forget set (Golatkar et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.losses import cross_entropy_in_turn
from residua.training.settings import ForgetBatch, Passes, RetainBatch, WrongLabels
from residua.training.streams import wrong_labels, wrong_then_right
from residua.unlearn._sgd import SgdOrAdam


@dataclass(frozen=True)
class RandomLabel(SgdOrAdam):
    """Each epoch: the forget set under labels drawn again, then the retain set; cross-entropy.

    `labels` are drawn from the other, not forgotten classes, or (`uniform`, as in the public code) from all of them.
    Public code has SGD or Adam.
    """

    epochs: Passes = 7
    retain_batch: RetainBatch = 64
    forget_batch: ForgetBatch = 16
    labels: WrongLabels = "other"

    label = "RL"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        # Differs from the reference: by default labels are drawn from the classes that are not forgotten; the public
        # code draws from all classes (`labels="uniform"`).
        allowed = wrong_labels(self.labels, task.classes, task.forgotten)
        # Differs from the reference: the forget set always comes before the retain set, as in the public code for
        # CIFAR-10; for CIFAR-100 it shuffles both into one.
        batches = wrong_then_right(
            task, allowed, self.forget_batch, self.retain_batch, model.device, self.crop, self.flip
        )
        return self.descend(model, batches, cross_entropy_in_turn)
