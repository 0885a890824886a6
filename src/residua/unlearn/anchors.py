"""Original, Retrain and Random: the models that IDI is read against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, reinitialise, restart
from residua.training.pretraining import Pretraining
from residua.training.settings import Setting


@dataclass(frozen=True)
class Original:
    """The model that was asked to forget, unchanged: the upper end of IDI (1 by definition)."""

    label = "Original"
    role = "original"
    keeps_encoder, quick, guarded = True, True, False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return clone(original)


@dataclass(frozen=True)
class Retrain:
    """A model that never saw the forget set: Original's network, trained on the retain set as Original was, from where
    Original started: the weights of --init, or others drawn again.

    The gold standard, and the lower end of IDI (0 by definition). The head keeps an output for
    each forgotten class; nothing ever trains it.
    """

    pretraining: Annotated[Pretraining, Setting("Training of Original.")] = field(default_factory=Pretraining)

    label = "Retrain"
    role = "reference"
    from_scratch = True
    guarded = False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return self.pretraining(restart(clone(original)), task.retain)


@dataclass(frozen=True)
class Random:
    """Original's network with freshly drawn weights: it forgot everything, which is too much."""

    label = "Random"
    role = "random"
    from_scratch = True
    quick = True
    guarded = False

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return reinitialise(clone(original))
