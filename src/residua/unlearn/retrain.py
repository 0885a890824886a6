"""Retrain: a model that never saw the forget set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, reinitialise
from residua.training.pretraining import Pretraining
from residua.training.settings import Setting


@dataclass(frozen=True)
class Retrain:
    """Original's network, drawn again and trained on the retain set as Original was on D.

    The gold standard, and the lower end of IDI (0 by definition). The head keeps an output for
    each forgotten class; nothing ever trains it.
    """

    pretraining: Annotated[Pretraining, Setting("How Original was trained.")] = field(
        default_factory=Pretraining
    )

    label = "Retrain"
    from_scratch = True
    guarded = False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        # Differs from the paper: a ViT starts from drawn weights too; the paper starts its ViTs from weights that were
        # trained on ImageNet-21K.
        return self.pretraining(reinitialise(clone(original)), task.retain)
