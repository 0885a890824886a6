"""Preprocessing: the size and normalisation that a model expects of its images.

It is the model's, not the data's: a checkpoint of ours carries it, options override it, and only if neither says
anything do the data decide. `prepare` applies it to a data set that is already open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from residua.data.from_arrays import channel_statistics
from residua.data.split import MemoryImages, Split, per_channel, side
from residua.data.task import Dataset
from residua.errors import InputError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
WAYS = ("imagenet", "data", "none")
LARGEST = 8192  # pixels of a side that a file may ask for


@dataclass(frozen=True)
class Preprocessing:
    """A request for the size and normalisation of images; None leaves a choice open.

    Pixels x in [0, 255] become (x / 255 - mean) / std, one number per channel. `normalise` names both: ImageNet's,
    those of the training data, or none (x / 255).
    """

    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    normalise: str | None = None

    def __post_init__(self) -> None:
        side(self.size)
        if self.normalise is not None and self.normalise not in WAYS:
            raise InputError(f"normalise is {self.normalise!r}, expected {', '.join(WAYS)}; choose one")
        if (self.mean is None) != (self.std is None):
            raise InputError("mean and std belong together; give both or neither")
        if self.mean is not None and self.normalise is not None:
            raise InputError("mean and std already normalise; leave out normalise, or leave them out")

    def over(self, other: Preprocessing | None) -> Preprocessing:
        """This where it says something, else the other."""
        if other is None:
            return self
        size = self.size if self.size is not None else other.size
        normalises = self.mean is not None or self.normalise is not None
        return replace(self if normalises else other, size=size)


def prepare(data: Dataset, wanted: Preprocessing) -> Dataset:
    """The data set with its images normalised as wanted and, if they are in memory, resized per batch.

    Args:
        data: The data set.
        wanted: Size and normalisation; fields that are None leave the data's own.
    """
    channels = data.shape[0]
    mean, std = data.train.mean, data.train.std
    if wanted.mean is not None and wanted.std is not None:
        mean, std = _spread(wanted.mean, channels, "mean"), _spread(wanted.std, channels, "std")
    elif wanted.normalise == "none":
        mean, std = (0.0,) * channels, (1.0,) * channels
    elif wanted.normalise == "imagenet":
        mean, std = imagenet(channels)
    elif wanted.normalise == "data":
        mean, std = statistics(data.train)
    _, height, width = data.shape
    new = wanted.size is not None and not height == width == wanted.size
    size = wanted.size if new else data.train.size
    changed = {"mean": mean, "std": std, "size": size}
    return replace(data, train=replace(data.train, **changed), test=replace(data.test, **changed))  # type: ignore[arg-type]


def statistics(split: Split) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of the images of a split, as they are before resizing per batch."""
    if isinstance(split.images, MemoryImages) and len(split) == len(split.images):
        return channel_statistics(split.images.pixels)
    channels = split.images.shape[0]
    n, first, second = (0, torch.zeros(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64))
    for images in split.images.stream(split.index.split(256), torch.device("cpu")):
        x = images.transpose(0, 1).reshape(channels, -1).double()
        n, first, second = n + x.shape[1], first + x.sum(1), second + (x * x).sum(1)
    mean = first / n
    std = ((second / n - mean**2).clamp_min(0).sqrt() / 255).tolist()
    return tuple((mean / 255).tolist()), tuple(value or 1.0 for value in std)


def of_split(split: Split) -> dict[str, Any]:
    """The preprocessing that a model trained on this split expects, for its checkpoint."""
    return {"shape": list(split.shape), "mean": list(split.mean), "std": list(split.std)}


def from_checkpoint(carried: object) -> Preprocessing | None:
    """The preprocessing in a checkpoint's header, if it is sound."""
    if not isinstance(carried, Mapping):
        return None
    shape: Any = carried.get("shape")
    mean: Any = carried.get("mean")
    std: Any = carried.get("std")
    sound = (
        isinstance(shape, list)
        and len(shape) == 3
        and all(isinstance(n, int) and 0 < n <= LARGEST for n in shape)
        and all(isinstance(v, list) and len(v) == shape[0] and all(map(_finite, v)) for v in (mean, std))
        and min(std) > 0
    )
    if not sound:
        return None
    size = shape[1] if shape[1] == shape[2] else None
    return Preprocessing(size, tuple(map(float, mean)), tuple(map(float, std)))


def numbers(words: str, what: str) -> tuple[float, ...]:
    """Numbers from words such as `0.5,0.5,0.5` or `0.5`."""
    try:
        found = tuple(float(word) for word in re.split(r"[,\s]+", words.strip()))
    except ValueError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise InputError(f"{what} is {words!r}, expected a number per channel, such as 0.485,0.456,0.406")
    return found


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _spread(values: Sequence[float], channels: int, what: str) -> tuple[float, ...]:
    """One number for all channels, or one for each."""
    return per_channel(list(values) * channels if len(values) == 1 else values, channels, what)


def imagenet(channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """ImageNet's mean and deviation, and their means over channels for grey images."""
    if channels == 3:
        return IMAGENET_MEAN, IMAGENET_STD
    if channels == 1:
        return (sum(IMAGENET_MEAN) / 3,), (sum(IMAGENET_STD) / 3,)
    raise InputError(f"images of {channels} channels cannot be normalised like ImageNet's; give mean and std")
