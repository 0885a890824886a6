"""Original: the model that was asked to forget, unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone


@dataclass(frozen=True)
class Original:
    """Nothing is unlearned: the upper end of IDI (1 by definition)."""

    label = "Original"
    keeps_encoder = True
    quick = True
    guarded = False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return clone(original)
