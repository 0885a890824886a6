"""Relearning: accuracy on the forgotten data while the model is trained on them again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from residua.data.split import Batches, Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.readings import Reading
from residua.training.loop import SGD, descend, seeded, unwatched
from residua.training.settings import Choice, Count, Rate, Seed, Weight, check_settings


@dataclass(frozen=True)
class Relearning:
    """Accuracy on the forget set after each mini-batch of further training, on a copy of the model.

    The whole course is kept, because how far to go depends on Original: `compare.relearn_time` counts
    the mini-batches until the accuracy is within 5 % of Original's, and `compare.ain` divides two such
    counts. By default the model is trained on the forget set, which gives a steady course (`on="all"`:
    on all of D). The course ends after `steps`, or where nothing is left to relearn. Accuracy is that
    of at most `asked` forget samples, in eval mode.
    """

    steps: Annotated[int, Count("Most mini-batches.")] = 60
    batch: Annotated[int, Count("Samples in a mini-batch.", least=2)] = 32
    lr: Annotated[float, Rate("Learning rate.", tune=None)] = 1e-3
    momentum: Annotated[float, Weight("Momentum of SGD.")] = 0.9
    on: Annotated[
        Literal["forget", "all"], Choice("What is trained on: the forget set, or all of the training data.")
    ] = "forget"
    asked: Annotated[int, Count("Most forget samples whose accuracy is followed.")] = 100
    seed: Annotated[int, Seed()] = 0

    label = "relearning"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        with seeded(self.seed), unwatched():
            sample = _some(task.forget, self.asked)
            relearned = clone(model)
            x = torch.cat([x for x, _ in sample.batches(500, device=model.device)])
            course = [_accuracy(relearned, x, sample.labels)]

            def look() -> None:
                relearned.eval()
                course.append(_accuracy(relearned, x, sample.labels))
                relearned.train()

            source = task.train if self.on == "all" else task.forget
            batches = _endless(source, self.steps * self.batch).batches(self.batch, device=model.device)
            descend(
                relearned,
                Until(batches, lambda: course[-1] == 1.0 and len(course) > 1),
                optimizer=SGD(relearned.parameters(), lr=self.lr, momentum=self.momentum),
                epochs=1,
                precision="float32",
                after_step=look,
            )
        return Reading(
            {"relearning.before": course[0], "relearning.after": course[-1]},
            {"course": np.array(course)},
        )


class Until:
    """The batches, until `done`."""

    def __init__(self, batches: Batches, done: Callable[[], bool]) -> None:
        self.batches, self.done = batches, done

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return takewhile(lambda _: not self.done(), self.batches)


def _endless(split: Split, n: int) -> Split:
    """n samples from one shuffled pass after the other: full batches, also of a small set (BatchNorm)."""
    passes = [torch.randperm(len(split)) for _ in range(math.ceil(n / len(split)))]
    return split.subset(torch.cat(passes)[:n])


def _some(split: Split, most: int) -> Split:
    return split.subset(torch.randperm(len(split))[:most].sort().values)


def _accuracy(model: Classifier, x: Tensor, labels: Tensor) -> float:
    with torch.inference_mode():
        return float((model(x).argmax(dim=1).cpu() == labels).double().mean())
