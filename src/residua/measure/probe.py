"""Probe: what a linear classifier can read from each block."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.classifier import Classifier
from residua.critic import linear_answers
from residua.errors import InputError
from residua.outputs import pooled
from residua.reading import Reading
from residua.task import ForgetTask
from residua.training import seeded


@dataclass(frozen=True)
class Probe:
    """Accuracy of a linear probe on the pooled features of every block, read on data it never saw.

    When classes are forgotten the probe is fitted on training data of all classes and `probe.l` is
    its accuracy on the *test* images of the forgotten ones. When samples are forgotten it is fitted on
    retained data and `probe.l` is its accuracy on the forget set. `probe.test.l` is its accuracy on the
    test set. At most `most` samples fit it, with the penalty (`ridge` / 2) |W|^2.
    """

    most: int = 3000
    ridge: float = 1e-3
    seed: int = 0

    label = "probe"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if self.most < task.classes:
            raise InputError(f"most is {self.most}, expected at least one sample for each class")
        if not self.ridge > 0:
            raise InputError(f"ridge is {self.ridge}, expected above 0")
        splits = [task.retain, task.forget] if task.scenario == "class" else [task.retain]
        asked = task.forget_test if task.scenario == "class" else task.forget
        labels = torch.cat([split.labels for split in splits])
        with seeded(self.seed):
            some = torch.randperm(len(labels))[: self.most]
        seen = [pooled(model, split) for split in splits]
        test, ask = pooled(model, task.test), pooled(model, asked)
        values, notes = {}, {}
        for block in range(1, model.depth + 1):
            z = torch.cat([of[block] for of in seen])[some]
            read = torch.cat([test[block], ask[block]]) if len(asked) else test[block]
            said = linear_answers(z, labels[some], read, ridge=self.ridge)
            values[f"probe.test.{block}"] = _share(said[: len(task.test)] == task.test.labels)
            if len(asked):
                values[f"probe.{block}"] = _share(said[len(task.test) :] == asked.labels)
            else:
                notes[f"probe.{block}"] = "the test data hold no image of the forgotten classes"
        return Reading(values, notes=notes)


def _share(right: Tensor) -> float:
    return float(right.double().mean())
