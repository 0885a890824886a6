"""Random: a model that never saw anything."""

from __future__ import annotations

from dataclasses import dataclass

from residua.classifier import Classifier, clone, reinitialise
from residua.task import ForgetTask


@dataclass(frozen=True)
class Random:
    """Original's network with freshly drawn weights: it forgot everything, which is too much."""

    label = "Random"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return reinitialise(clone(original))
