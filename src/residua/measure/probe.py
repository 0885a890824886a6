"""Probe: what a linear classifier can read from each block."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from residua.classifier import Classifier
from residua.critic import Standardised
from residua.errors import InputError
from residua.outputs import pooled
from residua.reading import Reading
from residua.task import ForgetTask
from residua.training import seeded

RIDGE = 1e-3


@dataclass(frozen=True)
class Probe:
    """Accuracy of a linear probe on the pooled features of every block, read on data it never saw.

    When classes are forgotten the probe is fitted on training data of all classes and `probe.l` is
    its accuracy on the *test* images of the forgotten ones. When samples are forgotten it is fitted on
    retained data and `probe.l` is its accuracy on the forget set. `probe.test.l` is its accuracy on the
    test set. At most `most` samples fit it.
    """

    most: int = 3000
    seed: int = 0

    label = "probe"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if self.most < task.classes:
            raise InputError(f"most is {self.most}, expected at least one sample for each class")
        splits = [task.retain, task.forget] if task.scenario == "class" else [task.retain]
        asked = task.forget_test if task.scenario == "class" else task.forget
        labels = torch.cat([split.labels for split in splits])
        with seeded(self.seed):
            some = torch.randperm(len(labels))[: self.most]
        seen = [pooled(model, split) for split in splits]
        test, ask = pooled(model, task.test), pooled(model, asked)
        values, notes = {}, {}
        for block in range(1, model.depth + 1):
            z = torch.cat([of[block] for of in seen])[some].double()
            said = _said(z, labels[some], torch.cat([test[block], ask[block]]) if len(asked) else test[block])
            values[f"probe.test.{block}"] = _share(said[: len(task.test)] == task.test.labels)
            if len(asked):
                values[f"probe.{block}"] = _share(said[len(task.test) :] == asked.labels)
            else:
                notes[f"probe.{block}"] = "the test data hold no image of the forgotten classes"
        return Reading(values, notes=notes)


def _said(z: Tensor, y: Tensor, read: Tensor) -> Tensor:
    """The class that a linear classifier fitted on (z, y) gives to each row of `read`.

    It minimises the mean cross-entropy + (RIDGE / 2) |w|^2 on standardised features.
    """
    if len(y.unique()) == 1:
        return y[:1].expand(len(read))
    standard = Standardised(z)
    classifier = LogisticRegression(C=1 / (RIDGE * len(y)), max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(standard(z).numpy(), y.numpy())
    return torch.from_numpy(classifier.predict(standard(read.double()).numpy()))


def _share(right: Tensor) -> float:
    return float(right.double().mean())
