"""Parts of the training data: the same share of every class, drawn once and in the data's own order."""

from __future__ import annotations

from dataclasses import replace

import torch

from residua.data.split import Split
from residua.data.task import Dataset
from residua.errors import InputError

# The seed of `?part=0.2`: one part of each size, so that the same words always name the same images.
SEED = 0


def parted(
    split: Split, share: float, seed: int, what: str = "validation share or part"
) -> tuple[Split, Split]:
    """What stays, and the `share` of every class that is taken out, both in the split's own order."""
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed))
    out = torch.zeros(len(split), dtype=torch.bool)
    for label in torch.unique(split.labels):
        own = order[split.labels[order] == label]
        out[own[: round(share * len(own))]] = True
    if out.all() or not out.any():
        raise InputError(
            f"{share:.0%} of {len(split)} training examples are none or all of them; choose another {what}"
        )
    return split.subset((~out).nonzero()[:, 0]), split.subset(out.nonzero()[:, 0])


def part_of(data: Dataset, part: float) -> Dataset:
    """The data set with `part` of each class's training examples and all test data; all of it for 1."""
    if not 0 < part <= 1:
        raise InputError(f"part is {part:g}, expected above 0 and up to 1")
    if part == 1:
        return data
    return replace(data, train=parted(data.train, part, SEED, "part")[1])
