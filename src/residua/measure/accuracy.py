"""Accuracy, ClassAccuracy and Perturbed: UA, RA and TA, accuracy on the test data class by class, and UA under noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.measure._outputs import logits
from residua.models.classifier import Classifier, evaluated
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Checked, Seed, Weight

BATCH = 500
# Splits that the three accuracies are read on.
ASKED = {"UA": "forget", "RA": "retain", "TA": "test"}


@dataclass(frozen=True)
class Accuracy:
    """Unlearning, remaining and testing accuracy, each a fraction in [0, 1].

        UA = 1 - accuracy on the forget set      (Retrain's is 1 when a class is forgotten)
        RA = accuracy on the retain set
        TA = accuracy on the test set

    TA leaves the forgotten classes out: the paper's TA of Retrain could not be reached otherwise. A
    good method has the values of Retrain, not the highest ones.
    """

    label = "accuracy"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        return Reading(accuracies({split: accuracy(model, getattr(task, split)) for split in ASKED.values()}))


def accuracies(correct: Mapping[str, float]) -> dict[str, float]:
    """UA, RA and TA of those splits whose fraction of correct answers is known."""
    known = {name: correct[split] for name, split in ASKED.items() if split in correct}
    return known | {"UA": 1 - known["UA"]} if "UA" in known else known


def accuracy(model: Classifier, split: Split) -> float:
    """Accuracy of the model on a split."""
    answers = logits(model, split).argmax(dim=1)
    return float((answers == split.labels).double().mean())


@dataclass(frozen=True)
class ClassAccuracy:
    """Accuracy on the test images of each class.

    `FTA` is the accuracy on the test images of the forgotten classes; `class_accuracy.worst` is that
    of the worst class which should be kept. Arrays hold, for each class, how many images there are
    and how many are right, so that `compare.class_changes` can say which neighbours were damaged.
    """

    label = "class-accuracy"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        right = torch.zeros(task.classes, dtype=torch.int64)
        count = torch.zeros(task.classes, dtype=torch.int64)
        for split in (task.test, task.forget_test):
            hit = logits(model, split).argmax(dim=1) == split.labels
            right += torch.bincount(split.labels[hit], minlength=task.classes)
            count += torch.bincount(split.labels, minlength=task.classes)
        values, notes = {}, {}
        forgotten = torch.tensor(task.forgotten, dtype=torch.int64)
        if int(count[forgotten].sum()):
            values["FTA"] = float(right[forgotten].sum() / count[forgotten].sum())
        elif task.scenario == "class":
            notes["FTA"] = "the test data hold no image of the forgotten classes"
        else:
            notes["FTA"] = "single samples were forgotten, not classes, so there is no forgotten class to test"
        retained = torch.ones(task.classes, dtype=torch.bool)
        retained[forgotten] = False
        for c in range(task.classes):
            if count[c]:
                values[f"class_accuracy.{c}"] = float(right[c] / count[c])
            else:
                notes[f"class_accuracy.{c}"] = f"the test data hold no image of class {c}"
        kept = retained & (count > 0)
        values["class_accuracy.worst"] = float((right[kept] / count[kept]).min())
        return Reading(
            values, {"right": right.numpy(), "count": count.numpy(), "retained": retained.numpy()}, notes=notes
        )


@dataclass(frozen=True)
class Perturbed(Checked):
    """UA on the forget set with Gaussian noise, in units of a pixel's standard deviation.

    A plain model hardly notices such noise. One that was prepared for the very images that an audit uses does
    not recognise them any more.
    """

    noise: Annotated[float, Weight("Standard deviation of the noise, in those of the pixels.", above=0)] = 0.05
    seed: Annotated[int, Seed()] = 0

    label = "perturbed"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        right = 0
        with evaluated(model), torch.inference_mode(), seeded(self.seed):
            for x, y in task.forget.batches(BATCH, device=model.device):
                noise = torch.randn(x.shape).to(x)  # drawn on the CPU: the same on every device
                right += int((model(x + self.noise * noise).argmax(dim=1) == y).sum())
        return Reading({"UA_perturbed": 1 - right / len(task.forget)})
