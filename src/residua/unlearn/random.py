"""Random: a model that never saw anything."""

from __future__ import annotations

from dataclasses import dataclass

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, reinitialise


@dataclass(frozen=True)
class Random:
    """Original's network with freshly drawn weights: it forgot everything, which is too much."""

    label = "Random"
    from_scratch = True
    quick = True
    guarded = False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return reinitialise(clone(original))
