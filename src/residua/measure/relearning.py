"""Relearning: how quickly the model learns the forgotten data again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from residua.classifier import Classifier, clone
from residua.errors import InputError
from residua.reading import Reading
from residua.split import Batches, Split
from residua.task import ForgetTask
from residua.training import descend, seeded


@dataclass(frozen=True)
class Relearning:
    """Accuracy on the forget set after each mini-batch of further training, on a copy of the model.

    The whole course is kept, because how far to go depends on Original: `compare.relearn_time` counts
    the mini-batches until the accuracy is within 5 % of Original's, and `compare.ain` divides two such
    counts. By default the model is trained on the forget set, which gives a steady course (`on="all"`:
    on all of D). The course ends after `steps`, or where nothing is left to relearn. Accuracy is that
    of at most `asked` forget samples, in eval mode.
    """

    steps: int = 60
    batch: int = 32
    lr: float = 1e-3
    momentum: float = 0.9
    on: Literal["forget", "all"] = "forget"
    asked: int = 100
    seed: int = 0

    label = "relearning"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        for name, least in {"steps": 1, "batch": 2, "asked": 1}.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least {least}")
        if self.on not in ("forget", "all"):
            raise InputError(f"on is {self.on!r}, expected forget or all")
        with seeded(self.seed):
            asked = _some(task.forget, self.asked)
            relearned = clone(model)
            x = torch.cat([x for x, _ in asked.batches(500, device=model.device)])
            course = [_accuracy(relearned, x, asked.labels)]

            def look() -> None:
                relearned.eval()
                course.append(_accuracy(relearned, x, asked.labels))
                relearned.train()

            source = task.train if self.on == "all" else task.forget
            batches = _endless(source, self.steps * self.batch).batches(self.batch, device=model.device)
            descend(
                relearned,
                Until(batches, lambda: course[-1] == 1.0 and len(course) > 1),
                optimizer=torch.optim.SGD(relearned.parameters(), lr=self.lr, momentum=self.momentum),
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
