"""Probe: what a linear classifier can read from each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.explaining import NEARER, Explanation
from residua.measure._outputs import pooled
from residua.measure.information.answers import linear_answers
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Count, Seed, Weight, check_settings

EXPLANATIONS = (
    Explanation(
        name="probe",
        title="Linear probe of every block",
        box="white",
        definition=(
            "Accuracy of a linear classifier on the pooled features of block l: on test images of "
            "the forgotten classes or, when samples are forgotten, on the forget set. "
            "`probe.test.l`: on the test set."
        ),
        formula=(
            "accuracy of softmax(W z_l + b), fitted on training data (on retained data when samples"
            " are forgotten)"
        ),
        range="[0, 1]",
        better=NEARER,
        ideal="The reference's.",
        blind="What is there but not linear; places, since features are pooled.",
        elsewhere="Linear separability, linear evaluation.",
        source="Alain and Bengio 2016.",
        parts="blocks",
    ),
)


@dataclass(frozen=True)
class Probe:
    """Accuracy of a linear probe on the pooled features of every block, read on data it never saw.

    When classes are forgotten the probe is fitted on training data of all classes and `probe.l` is
    its accuracy on the *test* images of the forgotten ones. When samples are forgotten it is fitted on
    retained data and `probe.l` is its accuracy on the forget set. `probe.test.l` is its accuracy on the
    test set. At most `most` samples fit it, with the penalty (`ridge` / 2) |W|^2.
    """

    most: Annotated[int, Count("Most samples that fit the probe.")] = 3000
    ridge: Annotated[float, Weight("Penalty on the probe's weights.", above=0)] = 1e-3
    seed: Annotated[int, Seed()] = 0

    label = "probe"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if self.most < task.classes:
            raise InputError(f"most is {self.most}, expected at least one sample for each class")
        splits = [task.retain, task.forget] if task.scenario == "class" else [task.retain]
        target = task.forget_test if task.scenario == "class" else task.forget
        labels = torch.cat([split.labels for split in splits])
        with seeded(self.seed):
            some = torch.randperm(len(labels))[: self.most]
        seen = [pooled(model, split) for split in splits]
        test, aimed = pooled(model, task.test), pooled(model, target)
        values, notes = {}, {}
        for block in range(1, model.depth + 1):
            z = torch.cat([features[block] for features in seen])[some]
            read = torch.cat([test[block], aimed[block]]) if len(target) else test[block]
            answers = linear_answers(z, labels[some], read, ridge=self.ridge)
            values[f"probe.test.{block}"] = _share(answers[: len(task.test)] == task.test.labels)
            if len(target):
                values[f"probe.{block}"] = _share(answers[len(task.test) :] == target.labels)
            else:
                notes[f"probe.{block}"] = "the test data hold no image of the forgotten classes"
        return Reading(values, notes=notes)


def _share(right: Tensor) -> float:
    return float(right.double().mean())
