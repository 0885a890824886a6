"""Retrain: a model that never saw the forget set."""

from __future__ import annotations

from dataclasses import dataclass, field

from residua.classifier import Classifier, clone, reinitialise
from residua.task import ForgetTask
from residua.training import Pretraining


@dataclass(frozen=True)
class Retrain:
    """Original's network, drawn anew and trained on the retain set as Original was on D.

    The gold standard, and the lower end of IDI (0 by definition). The head keeps an output for
    each forgotten class; nothing ever asks for it.
    """

    pretraining: Pretraining = field(default_factory=Pretraining)

    label = "Retrain"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return self.pretraining(reinitialise(clone(original)), task.retain)
