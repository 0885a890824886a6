"""Recovery: how much of the forgotten comes back when only the head is trained again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.explaining import NEARER, Explanation
from residua.measure._outputs import pooled
from residua.measure.information.answers import linear_answers
from residua.measure.information.coordinates import canonical
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Count, Seed, Share, Weight, check_settings

EXPLANATIONS = (
    Explanation(
        name="recovery",
        title="Recovered accuracy",
        box="white",
        definition=(
            "Accuracy on the forget test data of a new head, fitted to the frozen encoder with 2 % "
            "of all training data; `.test` is its accuracy on the other test data, `.low` and `.high` are the 95 % interval."
        ),
        formula=("accuracy on the forget test set of (new head) o encoder, the mean over 5 draws of the 2 %"),
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's. Original's means: nothing was removed from the encoder.",
        blind="What a linear head cannot read with so few examples; the early blocks.",
        elsewhere="Head retraining, linear evaluation.",
        source="The paper, section on residual information. How the head is fitted is ours.",
    ),
)


@dataclass(frozen=True)
class Recovery:
    """Accuracy on the forget *test* data of a new head, fitted to the frozen encoder with 2 % of D.

    The head is a linear one of our own, not the model's drawn again: a head that is built to keep silent
    about a class would do so again. It sees the encoder's output only, and is solved to its end with the
    penalty (`ridge` / 2) |W|^2, so that nothing depends on how long or how fast it is trained. The value is
    the mean over `repeats` draws of the 2 %, which come from `seed`: models with one encoder have one
    recovery. `recovery.test` is the accuracy on the other test data. `recovery.low` and `.high` are the 95 % interval over
    draws and test images. Features are given to the head in canonical coordinates (`information/coordinates.py`), so
    that it does not matter how the encoder writes them down.
    """

    share: Annotated[float, Share("Share of the training data that the new head sees.")] = 0.02
    repeats: Annotated[int, Count("Draws of that share.")] = 5
    ridge: Annotated[float, Weight("Penalty on the new head's weights.", above=0)] = 1e-3
    seed: Annotated[int, Seed()] = 0

    label = "recovery"
    revision = 2

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        splits = (task.retain, task.forget, task.test, task.forget_test)
        retain, forget, *unseen = (pooled(model, split, [model.depth])[model.depth] for split in splits)
        z = torch.cat([retain, forget])
        y = torch.cat([task.retain.labels, task.forget.labels])
        read = torch.cat([part for part in unseen if len(part)])
        coordinates = canonical(torch.cat([z, read]))
        z, read = coordinates(z), coordinates(read)
        accuracies = []
        with seeded(self.seed):
            draws = [
                torch.randperm(len(y))[: max(2, round(self.share * len(y)))] for _ in range(self.repeats)
            ]
        # Differs from the paper: the head is linear, solved to its end under a ridge penalty, and averaged over five draws
        # of the 2 %; the paper trains one and does not say how.
        for some in draws:
            answers = linear_answers(z[some], y[some], read, ridge=self.ridge)
            test, forget_test = answers[: len(task.test)], answers[len(task.test) :]
            accuracies.append([_share(test, task.test.labels), _share(forget_test, task.forget_test.labels)])
        mean = np.mean(accuracies, axis=0)
        values, notes = {"recovery.test": float(mean[0])}, {}
        if len(task.forget_test):
            half = _half(np.array(accuracies)[:, 1], len(task.forget_test))
            values |= {
                "recovery": float(mean[1]),
                "recovery.low": max(float(mean[1]) - half, 0.0),
                "recovery.high": min(float(mean[1]) + half, 1.0),
            }
        elif task.scenario == "class":
            notes["recovery"] = "the test data hold no image of the forgotten classes"
        else:
            notes["recovery"] = "samples were forgotten and no class, so there are no forget test data"
        return Reading(values, {"draws": np.array(accuracies)} if len(task.forget_test) else {}, notes=notes)


def _half(draws: np.ndarray, n: int) -> float:
    """Half of the 95 % interval: the chance of the draws and of the n test images."""
    p = (float(draws.mean()) * n + 1) / (n + 2)
    fit = 0.0 if len(draws) < 2 else float(draws.var(ddof=1)) / len(draws)
    return 1.96 * float(np.sqrt(fit + p * (1 - p) / n))


def _share(answers: Tensor, truth: Tensor) -> float:
    return float((answers == truth).double().mean()) if len(truth) else float("nan")
