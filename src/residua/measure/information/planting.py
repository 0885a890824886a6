"""Planted features behind a frozen network, so that `InformationCurve` can be asked about a truth that is known.

An image of a planted task holds nothing but its own number; the network's first block looks up the features of that
number. What follows is what follows in any network: a block whose shape the critic takes, pooling, a head.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from residua.data.from_arrays import arrays
from residua.data.task import ForgetTask, forget_classes, forget_indices
from residua.models.classifier import Classifier

PLANE = 4  # side of a map, in places
TEST = 40  # test samples per label: they are read beside, and not calibrated


class Drawn(Protocol):
    """What a problem must be able to do: draw features and labels."""

    @property
    def labels(self) -> int: ...

    @property
    def n(self) -> int: ...

    def draw(self, random: np.random.Generator, n: int | None = None) -> tuple[np.ndarray, np.ndarray]: ...


class LookUp(nn.Module):
    """The features of each image: those that stand under the number that its pixels spell."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table: Tensor
        self.places: Tensor
        self.register_buffer("table", table)
        self.register_buffer("places", 256.0 ** torch.arange(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        digits = (x.flatten(1).double() * 255).round()
        z: Tensor = self.table[(digits @ self.places).long()]
        return z.permute(0, 3, 1, 2) if z.ndim == 4 else z

    def reset_parameters(self) -> None:
        """Nothing is drawn: what was planted stays."""


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3)) if x.ndim == 4 else x


def planted_task(problem: Drawn, seed: int) -> tuple[ForgetTask, Tensor]:
    """A task whose labels are the problem's, and the table of features that its images point to.

    Two labels are a class-wise task, in which class 1 is to be forgotten; more are random forgetting of all samples but one
    of each class, since that asks for the class.
    """
    random = np.random.default_rng(seed)
    z, y = problem.draw(random, problem.n)
    z_test, y_test = problem.draw(random, TEST * problem.labels)
    if problem.labels > 2:  # what is retained is never read: critics are fitted on what is forgotten
        z_more, y_more = problem.draw(random, 20 * problem.labels)
        z, y = np.concatenate([z, z_more]), np.concatenate([y, y_more])
    data = arrays(
        _numbered(0, len(y)), y, _numbered(len(y), len(y_test)), y_test, classes=problem.labels,
        mean=(0.0,), std=(1.0,), name="planted",
    )  # fmt: skip
    table = torch.from_numpy(np.concatenate([z, z_test])).float()
    task = forget_classes(data, 1) if problem.labels == 2 else forget_indices(data, range(problem.n))
    return task, table


def planted_network(table: Tensor, *, labels: int) -> Classifier:
    """A classifier whose first block gives the planted features. Maps have a second block, which a network critic
    takes the shape of; vectors are the last block themselves."""
    width = table.shape[-1]
    blocks: list[nn.Module] = [LookUp(table)]
    if table.ndim == 4:
        blocks.append(nn.Sequential(nn.Conv2d(width, 16, 1), nn.BatchNorm2d(16), nn.ReLU()))
        width = 16
    return Classifier(blocks, nn.Linear(width, labels), pool=Mean()).eval()


def _numbered(first: int, count: int) -> np.ndarray:
    """Images of 2 x 2 pixels that spell first, first + 1, ... in base 256."""
    numbers = np.arange(first, first + count)
    return np.stack([(numbers >> (8 * i)) & 255 for i in range(4)], 1).astype(np.uint8).reshape(-1, 1, 2, 2)
