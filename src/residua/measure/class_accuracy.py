"""ClassAccuracy: accuracy on the test data, class by class."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from residua.data.task import ForgetTask
from residua.explaining import HEAD, NEARER, Explanation
from residua.measure._outputs import logits
from residua.models.classifier import Classifier
from residua.readings import Reading

EXPLANATIONS = (
    Explanation(
        name="FTA",
        title="Forget test accuracy",
        box="black",
        definition="Accuracy on the test images of the forgotten classes.",
        formula="accuracy on the forget test set",
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's: 0, since it never says a class that it never saw.",
        blind=HEAD,
        elsewhere="Forget accuracy, A_f^t; some report 1 minus it.",
        source="Cotogni et al. 2023 (DUCK).",
    ),
    Explanation(
        name="class_accuracy",
        title="Accuracy class by class",
        box="black",
        definition=(
            "Accuracy on the test images of each class; `.worst` is the lowest among retained classes."
        ),
        formula="accuracy on the test images of class c",
        range="[0, 1]",
        better=NEARER,
        ideal="Retrain's.",
        blind="What is behind the answers.",
        elsewhere="Per-class accuracy.",
        source="Ours.",
        parts="classes",
    ),
)


@dataclass(frozen=True)
class ClassAccuracy:
    """How often the model is right on the test images of each class.

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
            notes["FTA"] = (
                "single samples were forgotten, not classes, so there is no forgotten class to test"
            )
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
            values,
            {"right": right.numpy(), "count": count.numpy(), "retained": retained.numpy()},
            notes=notes,
        )
