"""Recovery: how much of the forgotten comes back when only the head is trained anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
class Recovery:
    """Accuracy on the forget *test* data of a new head, fitted to the frozen encoder with 2 % of D.

    The head is a linear one of our own, not the model's drawn anew: a head that is built to keep silent
    about a class would do so again. It sees the encoder's output only, and is solved to its end with the
    penalty (`ridge` / 2) |W|^2, so that nothing depends on how long or how fast it is trained. The value is
    the mean over `repeats` draws of the 2 %, which come from `seed`: models with one encoder have one
    recovery. `recovery.test` is the accuracy on the other test data.
    """

    share: float = 0.02
    repeats: int = 5
    ridge: float = 1e-3
    seed: int = 0

    label = "recovery"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if not 0 < self.share <= 1:
            raise InputError(f"share is {self.share}, expected above 0 and at most 1")
        if self.repeats < 1:
            raise InputError(f"repeats is {self.repeats}, expected at least 1")
        if not self.ridge > 0:
            raise InputError(f"ridge is {self.ridge}, expected above 0")
        splits = (task.retain, task.forget, task.test, task.forget_test)
        retain, forget, *asked = (pooled(model, split, [model.depth])[model.depth] for split in splits)
        z = torch.cat([retain, forget])
        y = torch.cat([task.retain.labels, task.forget.labels])
        read = torch.cat([part for part in asked if len(part)])
        found = []
        with seeded(self.seed):
            draws = [
                torch.randperm(len(y))[: max(2, round(self.share * len(y)))] for _ in range(self.repeats)
            ]
        for some in draws:
            said = linear_answers(z[some], y[some], read, ridge=self.ridge)
            test, forget_test = said[: len(task.test)], said[len(task.test) :]
            found.append([_share(test, task.test.labels), _share(forget_test, task.forget_test.labels)])
        mean = np.mean(found, axis=0)
        values, notes = {"recovery.test": float(mean[0])}, {}
        if len(task.forget_test):
            values["recovery"] = float(mean[1])
        elif task.scenario == "class":
            notes["recovery"] = "the test data hold no image of the forgotten classes"
        else:
            notes["recovery"] = "samples were forgotten and no class, so there are no forget test data"
        return Reading(values, {"draws": np.array(found)} if len(task.forget_test) else {}, notes=notes)


def _share(said: Tensor, truth: Tensor) -> float:
    return float((said == truth).double().mean()) if len(truth) else float("nan")
