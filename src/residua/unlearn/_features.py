"""The encoder's output on whole splits, and linear maps of it that become part of the head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier
from residua.training.settings import Checked


@dataclass(frozen=True)
class InHead(Checked):
    """A method whose map of the encoder's output becomes part of the head: every block stays Original's."""

    keeps_encoder = True
    quick = True


@dataclass(frozen=True, eq=False)
class Rows:
    """Batches of vectors with their labels, in a fresh order each epoch."""

    vectors: Tensor
    labels: Tensor
    batch: int

    def __len__(self) -> int:
        return -(-len(self.labels) // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self.labels)).to(self.vectors.device).split(self.batch):
            yield self.vectors[rows], self.labels[rows]


@torch.no_grad()
def encoded(model: Classifier, split: Split) -> Tensor:
    """The encoder's output on a split, one vector per sample."""
    return torch.cat([model.encode(x) for x, _ in split.batches(500, device=model.device)])


def linear_head(model: Classifier, label: str) -> nn.Linear:
    """The model's head, which the method of this label needs to be linear, with a bias."""
    if not isinstance(model.head, nn.Linear) or model.head.bias is None:
        raise InputError(f"{label} needs a network whose head is one linear layer; choose resnet18 or the like")
    return model.head


@torch.no_grad()
def folded(model: Classifier, label: str, matrix: Tensor, offset: Tensor | None = None) -> Classifier:
    """The model, in place, as if z -> matrix z + offset stood before its head: its head does both."""
    head = linear_head(model, label)
    weight = wide(head.weight)
    if offset is not None:
        head.bias.add_((weight @ wide(offset)).to(head.bias))
    head.weight.copy_(weight @ wide(matrix))
    return model


def wide(z: Tensor) -> Tensor:
    """In float64 on the CPU: not every device has it."""
    return z.detach().cpu().double()


def only_classes(label: str, task: ForgetTask) -> None:
    """Refuse random samples, for methods that remove what is particular to a class."""
    if task.scenario != "class":
        raise InputError(
            f"{label} cannot forget random samples: it removes the direction of a whole class, and theirs are retained; "
            "choose another method"
        )
