"""Ways to unlearn, in the paper's order. Adding one is one file and one line here."""

from __future__ import annotations

from typing import Protocol

from residua.classifier import Classifier
from residua.task import ForgetTask
from residua.unlearn.original import Original
from residua.unlearn.random import Random
from residua.unlearn.retrain import Retrain

__all__ = ["METHODS", "Original", "Random", "Retrain", "Unlearner"]


class Unlearner(Protocol):
    """A frozen dataclass whose fields are hyperparameters and whose call makes one model of another.

    `original` is never changed. Randomness comes from PyTorch's global generator, which the
    caller seeds.
    """

    label: str

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier: ...


METHODS: tuple[type[Unlearner], ...] = (Original, Retrain, Random)
