"""Recovery: how much of the forgotten comes back when only the head is trained anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from residua.classifier import Classifier
from residua.errors import InputError
from residua.outputs import pooled
from residua.reading import Reading
from residua.task import ForgetTask
from residua.training import cross_entropy, descend, seeded


@dataclass(frozen=True)
class Recovery:
    """Accuracy on the forget *test* data of a new head, fitted to the frozen encoder with 2 % of D.

    The head is a linear one of our own, not the model's drawn anew: a head that is built to keep silent about a
    class would do so again. It sees the encoder's output only. That output is brought to mean 0 and
    deviation 1 first, so that how fast it is fitted does not depend on the encoder's scale. The value is the mean over `repeats` draws of the 2 %, which come from
    `seed`: models with one encoder have one recovery. `recovery.test` is the accuracy on the other
    test data.
    """

    share: float = 0.02
    repeats: int = 5
    epochs: int = 100
    batch: int = 128
    lr: float = 1e-2
    seed: int = 0

    label = "recovery"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if not 0 < self.share <= 1:
            raise InputError(f"share is {self.share}, expected above 0 and at most 1")
        if self.repeats < 1:
            raise InputError(f"repeats is {self.repeats}, expected at least 1")
        retain, forget, test, forget_test = (
            pooled(model, split, [model.depth])[model.depth]
            for split in (task.retain, task.forget, task.test, task.forget_test)
        )
        z = torch.cat([retain, forget])
        y = torch.cat([task.retain.labels, task.forget.labels])
        found = []
        with seeded(self.seed):
            for _ in range(self.repeats):
                some = torch.randperm(len(y))[: max(2, round(self.share * len(y)))]
                head = self._fitted(z[some], y[some], task.classes)
                asked = ((test, task.test.labels), (forget_test, task.forget_test.labels))
                found.append([_accuracy(head, z, y) for z, y in asked])
        mean = np.mean(found, axis=0)
        values, notes = {"recovery.test": float(mean[0])}, {}
        if len(forget_test):
            values["recovery"] = float(mean[1])
        elif task.scenario == "class":
            notes["recovery"] = "the test data hold no image of the forgotten classes"
        else:
            notes["recovery"] = "samples were forgotten and no class, so there are no forget test data"
        return Reading(values, {"draws": np.array(found)} if len(forget_test) else {}, notes=notes)

    def _fitted(self, z: Tensor, y: Tensor, classes: int) -> nn.Sequential:
        head = nn.Linear(z.shape[1], classes)
        descend(
            head,
            Rows((z - z.mean(0)) / _scale(z), y, self.batch),
            cross_entropy,
            optimizer=torch.optim.Adam(head.parameters(), lr=self.lr),
            epochs=self.epochs,
            schedule="cosine",
            precision="float32",
        )
        return nn.Sequential(Shifted(z.mean(0), _scale(z)), head).eval()


class Rows:
    """Batches of vectors in a fresh order."""

    def __init__(self, z: Tensor, y: Tensor, batch: int) -> None:
        self.z, self.y, self.batch = z, y, batch

    def __len__(self) -> int:
        return -(-len(self.y) // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for part in torch.randperm(len(self.y)).split(self.batch):
            yield self.z[part], self.y[part]


class Shifted(nn.Module):
    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.mean, self.scale = mean, scale

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.mean) / self.scale


def _scale(z: Tensor) -> Tensor:
    deviation = z.std(0)
    return torch.where(deviation > 1e-6 * z.abs().amax(0), deviation, torch.ones_like(deviation))


def _accuracy(head: nn.Module, z: Tensor, y: Tensor) -> float:
    if not len(y):
        return float("nan")
    with torch.inference_mode():
        return float((head(z).argmax(dim=1) == y).double().mean())
