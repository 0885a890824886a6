"""UA, RA, TA: what the model says about the forgotten, the retained and the unseen."""

from __future__ import annotations

from dataclasses import dataclass

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.explaining import HEAD, NEARER, Explanation
from residua.measure._outputs import logits
from residua.models.classifier import Classifier
from residua.readings import Reading

EXPLANATIONS = (
    Explanation(
        name="UA",
        title="Unlearning accuracy",
        box="black",
        definition="Error on the forget set.",
        formula="1 - accuracy on the forget set",
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's: 1 when a class is forgotten; about 1 - TA when samples are.",
        blind=HEAD,
        elsewhere="Some papers call the accuracy on the forget set UA or FA: the opposite sign.",
        source="The paper, appendix on metrics; Liu et al. 2024 (l1-sparse).",
    ),
    Explanation(
        name="RA",
        title="Remaining accuracy",
        box="black",
        definition="Accuracy on the retain set.",
        formula="accuracy on the retain set",
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's. Higher is not better: it may mean overfitting to what is left.",
        blind="Anything about the forgotten data.",
        elsewhere="Retain accuracy; 1 - RA in papers that count errors.",
        source="The paper, appendix on metrics.",
    ),
    Explanation(
        name="TA",
        title="Testing accuracy",
        box="black",
        definition="Accuracy on the test data, without the forgotten classes.",
        formula="accuracy on the test set",
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's.",
        blind="Anything about the forgotten data.",
        elsewhere="Where the forgotten classes are counted too, TA is lower by their share.",
        source=(
            "The paper, appendix on metrics. That forgotten classes are left out is inferred from its tables."
        ),
    ),
)


@dataclass(frozen=True)
class Accuracy:
    """Unlearning, remaining and testing accuracy, each a share in [0, 1].

        UA = 1 - accuracy on the forget set      (Retrain's is 1 when a class is forgotten)
        RA = accuracy on the retain set
        TA = accuracy on the test set

    TA leaves the forgotten classes out: the paper's TA of Retrain could not be reached otherwise. A
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
    answers = logits(model, split).argmax(dim=1)
    return float((answers == split.labels).double().mean())
