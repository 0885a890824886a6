"""Original: the model that was asked to forget, unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from residua.classifier import Classifier, clone
from residua.task import ForgetTask


@dataclass(frozen=True)
class Original:
    """Nothing is unlearned: the upper end of IDI (1 by definition)."""

    label = "Original"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return clone(original)
