"""Stress and Relearning: accuracy on forgotten data that returns when a model is treated as models are after their release,
or trained on the data again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from residua.data.split import Augmentation, Batches, Split
from residua.data.task import ForgetTask
from residua.measure._outputs import pooled
from residua.models.classifier import Classifier, clone
from residua.readings import Reading
from residua.training.loop import SGD, descend, seeded, unwatched
from residua.training.settings import Batch, Checked, Choice, Count, Epochs, Rate, Seed, Weight

SHOTS, BITS, PRUNED = (1, 5, 20), (8, 4), (30, 60)


@dataclass(frozen=True)
class Stress(Checked):
    """Accuracies on the forgotten after each treatment of a copy of the model.

    Prototypes are the mean features of the last block, of a few training samples of each class; a sample gets the
    class of the nearest by cosine. Weights are rounded tensor by tensor, symmetrically; the smallest weights of all
    convolutions and linear layers together are pruned.
    """

    epochs: Annotated[int, Epochs("Passes of fine-tuning on retained data.", least=1, tune=None)] = 1
    lr: Annotated[float, Rate("Learning rate of fine-tuning.", tune=None)] = 1e-2
    batch: Batch = 128
    noise: Annotated[float, Weight("Standard deviation of the noise, in those of the pixels.", above=0)] = 0.2
    seed: Annotated[int, Seed()] = 0

    label = "stress"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        values = {"stress.retain": _accuracy(self._fine_tuned(model, task), task.forget)}
        target = task.forget_test if len(task.forget_test) else task.forget
        values |= self._prototypes(model, task, target)
        values |= {f"stress.int{bits}": _accuracy(_changed(model, _rounded(bits)), task.forget) for bits in BITS}
        for share in PRUNED:
            least = torch.quantile(_sizes(model), share / 100)
            values[f"stress.prune{share}"] = _accuracy(_changed(model, _cut(float(least))), task.forget)
        with seeded(self.seed):
            values["stress.noise"] = _accuracy(clone(model), task.forget, self.noise)
        return Reading(values)

    def _fine_tuned(self, model: Classifier, task: ForgetTask) -> Classifier:
        with seeded(self.seed), unwatched():
            copy = clone(model)
            optimizer = SGD(copy.parameters(), lr=self.lr, momentum=0.9)
            data = task.retain.batches(
                self.batch, shuffle=True, augment=Augmentation(), drop_last=True, device=copy.device
            )
            descend(copy, data, optimizer=optimizer, epochs=self.epochs)
        return copy

    def _prototypes(self, model: Classifier, task: ForgetTask, target: Split) -> dict[str, float]:
        depth = model.depth
        z = torch.cat([pooled(model, split, [depth])[depth] for split in (task.retain, task.forget)])
        labels = torch.cat([task.retain.labels, task.forget.labels])
        asked = nn.functional.normalize(pooled(model, target, [depth])[depth] - z.mean(0), dim=1)
        values = {}
        for shots in SHOTS:
            with seeded(self.seed):
                order = torch.randperm(len(labels))
            classes = labels.unique()
            means = [z[order[labels[order] == c][:shots]].mean(0) for c in classes]
            prototypes = nn.functional.normalize(torch.stack(means) - z.mean(0), dim=1)
            answers = classes[(asked @ prototypes.T).argmax(dim=1)]
            values[f"stress.shots{shots}"] = float((answers == target.labels).double().mean())
        return values


@torch.no_grad()
def _accuracy(model: Classifier, split: Split, noise: float = 0.0) -> float:
    right = 0
    for x, y in split.batches(500, device=model.device):
        seen = x + noise * torch.randn(x.shape).to(x) if noise else x
        right += int((model(seen).argmax(dim=1) == y).sum())
    return right / len(split)


def _layers(model: Classifier) -> list[Tensor]:
    kinds = (nn.Conv2d, nn.Linear)
    return [part.weight.data for part in model.modules() if isinstance(part, kinds)]


def _sizes(model: Classifier) -> Tensor:
    """Sizes of the weights, of at most a million: torch.quantile takes no more than sixteen."""
    sizes = torch.cat([weight.abs().flatten().cpu() for weight in _layers(model)])
    return sizes[:: 1 + len(sizes) // 1_000_000]


def _changed(model: Classifier, change: Callable[[Tensor], Tensor]) -> Classifier:
    copy = clone(model)
    for weight in _layers(copy):
        weight.copy_(change(weight))
    return copy


def _rounded(bits: int) -> Callable[[Tensor], Tensor]:
    steps = 2 ** (bits - 1) - 1

    def rounded(weight: Tensor) -> Tensor:
        step = weight.abs().amax().clamp_min(1e-12) / steps
        return (weight / step).round() * step

    return rounded


def _cut(least: float) -> Callable[[Tensor], Tensor]:
    return lambda weight: torch.where(weight.abs() <= least, torch.zeros_like(weight), weight)


@dataclass(frozen=True)
class Relearning(Checked):
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

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        with seeded(self.seed), unwatched():
            sample = _some(task.forget, self.asked)
            relearned = clone(model)
            x = torch.cat([x for x, _ in sample.batches(500, device=model.device)])
            course = [_accuracy_of(relearned, x, sample.labels)]

            def look() -> None:
                relearned.eval()
                course.append(_accuracy_of(relearned, x, sample.labels))
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
        return Reading({"relearning.before": course[0], "relearning.after": course[-1]}, {"course": np.array(course)})


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


def _accuracy_of(model: Classifier, x: Tensor, labels: Tensor) -> float:
    with torch.inference_mode():
        return float((model(x).argmax(dim=1).cpu() == labels).double().mean())
