"""UA, RA, TA: what the model says about the forgotten, the retained and the unseen."""

from __future__ import annotations

from dataclasses import dataclass

from residua.classifier import Classifier
from residua.outputs import logits
from residua.reading import Reading
from residua.split import Split
from residua.task import ForgetTask


@dataclass(frozen=True)
class Accuracy:
    """Unlearning, remaining and testing accuracy, each a share in [0, 1].

        UA = 1 - accuracy on the forget set      (Retrain's is 1 when a class is forgotten)
        RA = accuracy on the retain set
        TA = accuracy on the test set

    TA leaves the forgotten classes out: the paper's TA of Retrain is out of reach otherwise. A
    good method has the values of Retrain, not the highest ones.
    """

    label = "accuracy"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        return Reading(
            {
                "UA": 1 - accuracy(model, task.forget),
                "RA": accuracy(model, task.retain),
                "TA": accuracy(model, task.test),
            }
        )


def accuracy(model: Classifier, split: Split) -> float:
    """The share of the split that the model calls by its label."""
    said = logits(model, split).argmax(dim=1)
    return float((said == split.labels).double().mean())
