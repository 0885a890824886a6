"""ForgetTask: the forgotten, the retained and the test data; and parts of a data set."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from residua.data.split import Split, rounded
from residua.errors import InputError

Scenario = Literal["class", "random"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test data under one name."""

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # choices of the loader, for readers

    @property
    def classes(self) -> int:
        return self.train.classes

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.train.shape


@dataclass(frozen=True, eq=False)
class ForgetTask:
    """A request to forget.

    `forget` and `retain` partition the training data D. In the `class` scenario whole classes
    are forgotten: `test` then holds the other classes and `forget_test` the forgotten ones,
    because a model retrained without a class cannot be asked about it. In the `random` scenario
    `test` is all of the test data and `forget_test` is empty.
    """

    dataset: str
    scenario: Scenario
    forgotten: tuple[int, ...]
    forget: Split
    retain: Split
    test: Split
    forget_test: Split
    preprocessed: str = ""  # the source of size and normalisation, for reports
    class_names: tuple[str, ...] = ()
    part: float = 1.0

    def thinned(self, part: float) -> ForgetTask:
        """The same request with this fraction of the retained and test samples, evenly spaced; all forgotten ones stay."""
        if part == 1.0:
            return self

        def some(split: Split) -> Split:
            return split.subset(torch.linspace(0, len(split) - 1, math.ceil(part * len(split))).long())

        return replace(
            self, part=part, retain=some(self.retain), test=some(self.test), forget_test=some(self.forget_test)
        )

    @property
    def train(self) -> Split:
        """All of D, in the data's own order: what Original was trained on, whatever is forgotten later."""
        both = self.retain.joined(self.forget)
        return both.subset(both.index.argsort(stable=True))

    @property
    def classes(self) -> int:
        return self.retain.classes

    @property
    def splits(self) -> dict[str, Split]:
        return {"forget": self.forget, "retain": self.retain, "test": self.test, "forget_test": self.forget_test}

    def duplicates(self) -> dict[str, Pairs]:
        """Exactly equal images on two sides of the task, as pairs of indices into the data.

        A forgotten image whose copy is retained is still being learned, and a test image that
        was trained on does not test. They are reported, not removed: the data are the user's. The pairs are counted,
        and made when they are asked for: of many equal images there are more than memory holds.
        """
        if self.forget.images is not self.retain.images:
            raise InputError("forget and retain are splits of different images; take both from one data set")
        found: dict[str, Pairs] = {}
        for name in ("forget/retain", "forget/test", "retain/test"):
            left, right = (self.splits[side] for side in name.split("/"))
            ours, theirs = left.images.digests, right.images.digests
            index = torch.cat([right.index, self.forget_test.index]) if right is self.test else right.index
            seen: dict[bytes, list[int]] = {}
            for i in left.index.tolist():
                seen.setdefault(ours[i], []).append(i)
            found[name] = Pairs(seen, [(j, theirs[j]) for j in index.tolist() if theirs[j] in seen])
        return found

    def manifest(self) -> dict[str, Any]:
        """The task in numbers: sizes, class counts and SHA-256 of every split, normalisation, duplicates.

        In the hash, mean and std are rounded: those computed from the data differ between machines in their last digits.
        The names of the classes are for readers, and stand outside of it.
        """
        body: dict[str, Any] = {
            "dataset": self.dataset,
            "scenario": self.scenario,
            "forgotten_classes": list(self.forgotten),
            "classes": self.classes,
            "shape": list(self.retain.shape),
            "mean": rounded(self.retain.mean),
            "std": rounded(self.retain.std),
            "splits": {
                name: {"n": len(split), "per_class": split.counts(), "sha256": split.digest()}
                for name, split in self.splits.items()
            },
            "duplicates": {name: len(pairs) for name, pairs in self.duplicates().items()},
        }
        if self.part < 1.0:
            body["part"] = self.part
        body["sha256"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        names = {"class_names": list(self.class_names)} if self.class_names else {}
        return body | {"mean": list(self.retain.mean), "std": list(self.retain.std)} | names


def forget_classes(data: Dataset, classes: int | Iterable[int]) -> ForgetTask:
    """Forget every training example of one or several classes.

    Args:
        data: The data set.
        classes: The number of a class, or several.
    """
    wanted = sorted({classes} if isinstance(classes, int) else set(classes))
    if not wanted:
        raise InputError("no class to forget was given; name at least one")
    present = data.train.counts()
    for c in wanted:
        if not 0 <= c < data.classes or not present[c]:
            raise InputError(
                f"class {c} is not in {data.name}, which has the classes 0 to {data.classes - 1}"
                + (" but no image of it" if 0 <= c < data.classes else "")
                + "; name one that is there"
            )
    return _task(data, torch.isin(data.train.labels, torch.tensor(wanted)))


def forget_samples(data: Dataset, per_class: int, seed: int = 0) -> ForgetTask:
    """Forget training examples of every class, drawn at random.

    Args:
        data: The data set.
        per_class: How many of each class; fewer than the smallest class has.
        seed: Seed of the draw.
    """
    fewest = min(n for n in data.train.counts() if n)
    if not 0 < per_class < fewest:
        raise InputError(
            f"per_class is {per_class}, expected 1 to {fewest - 1}: "
            f"the smallest class of {data.name} has {fewest} images"
        )
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data.train), generator=generator)
    chosen = torch.zeros(len(data.train), dtype=torch.bool)
    for c in range(data.classes):
        chosen[order[data.train.labels[order] == c][:per_class]] = True
    return _task(data, chosen)


def forget_indices(data: Dataset, ids: Sequence[int] | Tensor) -> ForgetTask:
    """Forget chosen training examples.

    If they are exactly all examples of some classes the scenario is `class`, else `random`.

    Args:
        data: The data set.
        ids: Positions in `data.train`.
    """
    index = torch.as_tensor(ids)
    if not index.numel():
        raise InputError(f"the forget set of {data.name} is empty; name what to forget")
    if index.ndim != 1 or index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise InputError("forget indices must be a list of whole numbers, one for each training example")
    n = len(data.train)
    if not 0 <= int(index.min()) <= int(index.max()) < n:
        raise InputError(
            f"forget indices run from {int(index.min())} to {int(index.max())}, expected 0 to {n - 1}: "
            f"{data.name} has {n} training examples"
        )
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[index.to(torch.int64)] = True
    return _task(data, chosen)


def _task(data: Dataset, chosen: Tensor) -> ForgetTask:
    train, test = data.train, data.test
    if not chosen.any():
        raise InputError(f"the forget set of {data.name} is empty; name what to forget")
    if chosen.all():
        raise InputError(f"the forget set is all of {data.name}; leave something to retain")
    touched = torch.unique(train.labels[chosen])
    whole = not torch.isin(train.labels[~chosen], touched).any()
    asked = torch.isin(test.labels, touched) if whole else torch.zeros(len(test), dtype=torch.bool)
    if asked.all():
        raise InputError(f"the test data of {data.name} hold nothing but forgotten classes; add others")
    return ForgetTask(
        dataset=data.name,
        scenario="class" if whole else "random",
        forgotten=tuple(touched.tolist()) if whole else (),
        forget=train.subset(chosen.nonzero()[:, 0]),
        retain=train.subset((~chosen).nonzero()[:, 0]),
        test=test.subset((~asked).nonzero()[:, 0]),
        forget_test=test.subset(asked.nonzero()[:, 0]),
        class_names=data.class_names,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Sized, Iterable[tuple[int, int]]):
    """Every (i, j) of two equal images, counted, and made only when iterated.

    `seen` has the i of each digest, `asked` each j with its digest, which is among them.
    """

    seen: dict[bytes, list[int]]
    asked: list[tuple[int, bytes]]

    def __len__(self) -> int:
        return sum(len(self.seen[digest]) for _, digest in self.asked)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((i, j) for j, digest in self.asked for i in self.seen[digest])

    def __repr__(self) -> str:
        return f"{len(self)} pairs of equal images"


def parted(split: Split, fraction: float, seed: int, what: str = "validation fraction or part") -> tuple[Split, Split]:
    """The rest, and the `fraction` of every class that is taken out, both in the split's own order."""
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed))
    out = torch.zeros(len(split), dtype=torch.bool)
    for label in torch.unique(split.labels):
        own = order[split.labels[order] == label]
        out[own[: round(fraction * len(own))]] = True
    if out.all() or not out.any():
        raise InputError(
            f"{fraction:.0%} of {len(split)} training examples are none or all of them; choose another {what}"
        )
    return split.subset((~out).nonzero()[:, 0]), split.subset(out.nonzero()[:, 0])
