"""Streams of training batches: one split, one after another, or two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from residua.data.split import Augmentation, Batches, Split
from residua.data.task import ForgetTask
from residua.training.loop import BatchSource
from residua.training.settings import Labels


def shuffled(split: Split, batch: int, device: torch.device, crop: int, flip: bool, keep_last: bool = False) -> Batches:
    """Batches in a fresh order each epoch, cropped and flipped; the last, smaller one is dropped or kept.

    Forget sets keep theirs, as in public code: they are small, and a dropped batch may be half of an epoch. A batch of
    a single sample is never kept, because BatchNorm cannot learn from it.
    """
    drop = not keep_last or len(split) % batch == 1
    return split.batches(batch, shuffle=True, augment=Augmentation(crop, flip), drop_last=drop, device=device)


@dataclass(frozen=True, eq=False)
class InTurn:
    """All batches of the first source, then all of the second; each says which one it is from.

    Yields (x, y, first).
    """

    first: BatchSource
    second: BatchSource

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        for x, y in self.first:
            yield x, y, True
        for x, y in self.second:
            yield x, y, False


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Each batch of the first source with one of the second, which starts again as often as it must.

    It is reshuffled each time (`itertools.cycle` would repeat its first order for ever). Yields
    (x, y, x', y').
    """

    first: BatchSource
    second: BatchSource

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        other = iter(self.second)
        for x, y in self.first:
            pair = next(other, None)
            if pair is None:
                other = iter(self.second)
                pair = next(other)
            yield x, y, *pair


@dataclass(frozen=True, eq=False)
class Contrasted:
    """Whole batches in a fresh order each epoch, for losses that compare the samples of a batch.

    With `views` = 2 each sample is there twice, cropped and flipped apart. With `balanced` the
    classes take turns, so that a batch holds as many of each as there are left. With `keep_last` the last, smaller
    batch is kept.
    """

    split: Split
    batch: int
    device: torch.device
    crop: int
    flip: bool
    views: int = 1
    balanced: bool = False
    keep_last: bool = False

    def __len__(self) -> int:
        return len(self._stream(self.split, self.batch))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = _turns(self.split.labels) if self.balanced else torch.randperm(len(self.split))
        chunks = order.split(self.batch)[: len(self)]
        seen = torch.cat([chunk.repeat(self.views) for chunk in chunks])
        return iter(self._stream(self.split.subset(seen), self.batch * self.views))

    def _stream(self, split: Split, batch: int) -> Batches:
        augment = Augmentation(self.crop, self.flip)
        return split.batches(batch, augment=augment, drop_last=not self.keep_last, device=self.device)


def _turns(labels: Tensor) -> Tensor:
    """A random order in which the classes take turns."""
    turn = torch.empty(len(labels), dtype=torch.float64)
    for label in labels.unique():
        where = (labels == label).nonzero()[:, 0]
        turn[where] = torch.randperm(len(where)).double()
    return (turn + torch.rand(len(labels), dtype=torch.float64)).argsort()


@dataclass(frozen=True, eq=False)
class Relabelled:
    """The batches of a split whose labels are drawn again each epoch, uniformly from `allowed[label]`.

    `allowed` is a (classes x classes) table of the labels that may replace each label.
    """

    split: Split
    allowed: Tensor
    batch: int
    device: torch.device
    crop: int
    flip: bool

    def __len__(self) -> int:
        return len(self._stream(self.split))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        drawn = torch.multinomial(self.allowed[self.split.labels].double(), 1)[:, 0]
        return iter(self._stream(self.split.relabel(drawn)))

    def _stream(self, split: Split) -> Batches:
        return shuffled(split, self.batch, self.device, self.crop, self.flip, keep_last=True)


def wrong_then_right(
    task: ForgetTask, allowed: Tensor, forget_batch: int, retain_batch: int, device: torch.device, crop: int, flip: bool
) -> InTurn:
    """Each epoch the forget set under labels drawn again from `allowed`, then the retain set under its own."""
    wrong = Relabelled(task.forget, allowed, forget_batch, device, crop, flip)
    return InTurn(wrong, shuffled(task.retain, retain_batch, device, crop, flip))


def other_labels(classes: int, forgotten: tuple[int, ...]) -> Tensor:
    """Table of the labels that may replace each label: any but itself and the forgotten ones."""
    allowed = ~torch.eye(classes, dtype=torch.bool)
    allowed[:, list(forgotten)] = False
    return allowed


def wrong_labels(labels: Labels, classes: int, forgotten: tuple[int, ...]) -> Tensor:
    """Table of the labels that may replace each label: `other_labels`, or all of them (`uniform`)."""
    if labels == "uniform":
        return torch.ones(classes, classes, dtype=torch.bool)
    return other_labels(classes, forgotten)


def likeliest(logits: Tensor, allowed: Tensor) -> Tensor:
    """The most likely label of each sample among those that its row of `allowed` (samples x classes) names."""
    return logits.float().masked_fill(~allowed, -torch.inf).argmax(dim=1)
