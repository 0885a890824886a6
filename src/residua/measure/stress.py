"""Stress: accuracy on forgotten data that returns when a model is treated as models are after their release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from residua.data.split import Augmentation, Split
from residua.data.task import ForgetTask
from residua.measure._outputs import pooled
from residua.models.classifier import Classifier, clone
from residua.readings import Reading
from residua.training.loop import SGD, descend, seeded, unwatched
from residua.training.settings import Batch, Epochs, Rate, Seed, Weight, check_settings

SHOTS, BITS, PRUNED = (1, 5, 20), (8, 4), (30, 60)


@dataclass(frozen=True)
class Stress:
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

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        values = {"stress.retain": _accuracy(self._fine_tuned(model, task), task.forget)}
        target = task.forget_test if len(task.forget_test) else task.forget
        values |= self._prototypes(model, task, target)
        values |= {
            f"stress.int{bits}": _accuracy(_changed(model, _rounded(bits)), task.forget) for bits in BITS
        }
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
