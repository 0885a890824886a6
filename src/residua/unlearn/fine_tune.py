"""FT: go on training on the retain set, and hope that the rest fades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.settings import Batch, Epochs, LearningRate, Optimizer
from residua.unlearn._sgd import SgdOrAdam


@dataclass(frozen=True)
class FineTune(SgdOrAdam):
    """Cross-entropy on the retain set, by default with Adam.

    The paper's table names Adam; most public code has SGD, whose momentum and weight decay Adam ignores.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more", tune=(1, 25))] = 25
    lr: LearningRate = 1e-5
    batch: Batch = 64
    optimizer: Optimizer = "adam"

    label = "FT"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        return self.descend(model, self.shuffled(model, task.retain, self.batch))
