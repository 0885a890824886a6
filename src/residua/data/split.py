"""Split: examples and the labels we give them, and how they become batches."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.device import memory_budget
from residua.errors import InputError


class Images(Protocol):
    """Storage of pixels. Code outside of `data/` sees no more of it than this."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of every image."""

    def __len__(self) -> int: ...

    def stream(self, batches: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
        """For each tensor of indices, the uint8 images (n, C, H, W) on `device`, in that order.

        They may be overwritten once the next ones are asked for.
        """

    @property
    def digests(self) -> list[bytes]:
        """A hash of each image's content; equal images have equal digests."""


@dataclass(eq=False, repr=False)
class MemoryImages:
    """Images as one uint8 tensor (N, H, W, C): in memory, copied once to each device that
    asks, or mapped from a file (`resident=False`), then read a batch at a time."""

    pixels: Tensor
    resident: bool = field(default=True, kw_only=True)
    _copies: dict[torch.device, Tensor] = field(default_factory=dict, init=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        _, height, width, channels = self.pixels.shape
        return channels, height, width

    def __len__(self) -> int:
        return len(self.pixels)

    def __getstate__(self) -> dict[str, Any]:
        """Copies on devices stay behind: where this is unpickled, there may be no such device."""
        return self.__dict__ | {"_copies": {}}

    def stream(self, batches: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
        pixels = self._copies.get(device, self.pixels)
        away = pixels is self.pixels and pixels.device != device
        if away and self.resident and pixels.numel() <= memory_budget(device):  # else a batch at a time
            pixels = self._copies[device] = pixels.to(device)
        for index in batches:
            # (n, H, W, C) seen as (n, C, H, W) is what PyTorch calls channels-last.
            yield pixels[index.to(pixels.device)].to(device).permute(0, 3, 1, 2)

    @cached_property
    def digests(self) -> list[bytes]:
        return [
            hashlib.blake2b(image.tobytes(), digest_size=16).digest()
            for chunk in self.pixels.cpu().split(4096)
            for image in chunk.contiguous().numpy()
        ]


def side(size: int | None) -> int | None:
    """`size` as the side of a square in pixels, or None for the images' own size."""
    if size is not None and (not isinstance(size, int) or size < 1):
        raise InputError(f"size is {size}, expected a whole number of pixels from 1 up")
    return size


def per_channel(values: Sequence[float], channels: int, what: str) -> tuple[float, ...]:
    """`values` as one finite number for each channel."""
    numbers = tuple(float(value) for value in values)
    if len(numbers) != channels or not all(math.isfinite(number) for number in numbers):
        raise InputError(
            f"{what} is {numbers}, expected one finite number for each of the {channels} channels "
            "of the images, in units where white is 1"
        )
    if what == "std" and min(numbers) <= 0:
        raise InputError(f"std is {numbers}, expected numbers above 0; give 1 for a constant channel")
    return numbers


def rounded(values: Iterable[float]) -> list[float]:
    """Means and deviations of pixels as they are kept and compared: to six digits behind the point."""
    return [round(float(value), 6) for value in values]


class Part(NamedTuple):
    """One of several processes that share every batch."""

    number: int = 0
    of: int = 1

    def __call__(self, samples: Tensor) -> Tensor:
        """This process's samples; a batch of fewer samples than processes is everybody's."""
        return samples[self.number :: self.of] if len(samples) >= self.of else samples


WHOLE = Part()
_part: ContextVar[Part] = ContextVar("part", default=WHOLE)


@contextlib.contextmanager
def one_part(part: Part) -> Iterator[None]:
    """Batches that are asked for in the body are this part of whole ones, drawn as whole ones are."""
    token = _part.set(part)
    try:
        yield
    finally:
        _part.reset(token)


@dataclass(frozen=True)
class Augmentation:
    """Random crop and horizontal flip, drawn for each sample, done for the whole batch at once.

    The image is framed by `crop` black pixels and a window of its own size is cut at a
    uniformly random place; with `flip`, half of the windows are mirrored. Both are one gather. Image files that are
    decoded batch by batch are cut at decoding instead, if `crop` is not 0: a window of 8 to 100 % of the area, in shapes
    from 3:4 to 4:3, becomes the image, as is usual for ImageNet.
    """

    crop: int = 0
    flip: bool = False

    def windows(self, n: int) -> Tensor:
        """Numbers from 0 to 1, five for each of n images, that say how each is cut and mirrored at decoding.

        All of an epoch are drawn at once: what is decoded ahead depends on the machine.
        """
        drawn = torch.rand(n, 5)
        return drawn if self.flip else torch.cat([drawn[:, :4], torch.ones(n, 1)], dim=1)

    def __call__(self, images: Tensor, whole: int | None = None, part: Part = WHOLE) -> Tensor:
        """The images, cropped and flipped; where they are a part of a `whole` batch, as in that batch."""
        n, _, height, width = images.shape
        device = images.device
        # Drawn on the CPU, so that a seed means the same on every device.
        top, left = (part(torch.randint(0, 2 * self.crop + 1, (whole or n, 1))) for _ in range(2))
        mirrored = part(torch.rand(whole or n, 1)) < (0.5 if self.flip else 0.0)
        rows = top + torch.arange(height)
        cols = left + torch.where(mirrored, torch.arange(width).flip(0), torch.arange(width))
        border = (0, 0, self.crop, self.crop, self.crop, self.crop)
        framed = F.pad(images.permute(0, 2, 3, 1), border)
        sample = torch.arange(n, device=device)[:, None, None]
        cut = framed[sample, rows.to(device)[:, :, None], cols.to(device)[:, None, :]]
        return cut.permute(0, 3, 1, 2)


@dataclass(frozen=True, eq=False)
class Split:
    """Examples and the labels we give them.

    A split is an index into images that several splits share: forget, retain and test are
    views, never copies. `labels[i]` belongs to `images[index[i]]`. Pixels stay uint8 and become
    (x / 255 - mean) / std per batch, resized to `size` x `size` where `size` is given.
    """

    images: Images
    index: Tensor
    labels: Tensor
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int | None = None

    def __post_init__(self) -> None:
        if len(self.index) != len(self.labels):
            raise InputError(
                f"a split has {len(self.index)} images but {len(self.labels)} labels; give one label for each image"
            )
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < self.classes:
            raise InputError(
                f"labels run from {int(self.labels.min())} to {int(self.labels.max())}, expected "
                f"0 to {self.classes - 1} for {self.classes} classes; correct the labels or the number of classes"
            )

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of a batch's images."""
        channels, height, width = self.images.shape
        return (channels, self.size, self.size) if self.size else (channels, height, width)

    def subset(self, positions: Tensor) -> Split:
        """The examples at these positions of this split, in that order."""
        return replace(self, index=self.index[positions], labels=self.labels[positions])

    def relabel(self, labels: Tensor) -> Split:
        """These examples under other labels."""
        return replace(self, labels=labels.to(torch.int64).cpu())

    def joined(self, other: Split) -> Split:
        """The examples of both; they must be views of the same images."""
        if other.images is not self.images:
            raise InputError("two splits of different images cannot be joined; take both from one data set")
        return replace(self, index=torch.cat([self.index, other.index]), labels=torch.cat([self.labels, other.labels]))

    def counts(self) -> list[int]:
        """The number of examples of each class."""
        return torch.bincount(self.labels, minlength=self.classes).tolist()

    def digest(self) -> str:
        """SHA-256 of the examples and labels, in order."""
        digests = self.images.digests
        sha = hashlib.sha256(repr((self.shape, self.classes)).encode())
        for i in self.index.tolist():
            sha.update(digests[i])
        sha.update(self.labels.numpy().tobytes())
        return sha.hexdigest()

    def batches(
        self,
        batch: int,
        *,
        shuffle: bool = False,
        augment: Augmentation | None = None,
        drop_last: bool = False,
        device: torch.device | str = "cpu",
    ) -> Batches:
        """Batches of normalised images and labels on `device`; see `Batches`."""
        if batch < 1:
            raise InputError(f"batch is {batch}, expected at least 1")
        return Batches(self, batch, shuffle, augment, drop_last, torch.device(device))


# Numbers that are scaled at once on a CPU: they stay in its cache, and PyTorch shares no fewer among threads, which would
# wait for each other wherever the cores decode images.
SCALED = 1 << 15


@dataclass(frozen=True, eq=False)
class Batches:
    """Can be iterated any number of times; with `shuffle`, each time in a fresh order.

    Randomness comes from PyTorch's global generator, which the caller seeds.
    """

    split: Split
    batch: int
    shuffle: bool
    augment: Augmentation | None
    drop_last: bool
    device: torch.device

    def __len__(self) -> int:
        n = len(self.split)
        # A set smaller than one batch still gives one.
        return max(n // self.batch, min(n, 1)) if self.drop_last else math.ceil(n / self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        split = self.split
        order = torch.randperm(len(split)) if self.shuffle else torch.arange(len(split))
        chunks = list(order.split(self.batch))[: len(self)] if len(split) else []
        # Mean and deviation for a row of pixels, all channels beside each other: one long run of numbers is scaled four
        # times as fast.
        channels, height, width = split.images.shape
        scale = 1 / (255 * torch.tensor(split.std, device=self.device)).repeat(width)
        shift = -torch.tensor(split.mean, device=self.device).repeat(width) * 255 * scale
        part = _part.get()
        wanted = (split.index[part(chunk)] for chunk in chunks)
        # Images that are decoded when they are asked for are also cut and mirrored then.
        at_decoding = self.augment is not None and self.augment.crop and hasattr(split.images, "paths")
        if self.augment and at_decoding:
            windows = self.augment.windows(len(order)).split(self.batch)[: len(chunks)]
            cut = [part(each) for each in windows]
            streamed = split.images.stream(wanted, self.device, cut)  # type: ignore[call-arg]
        else:
            streamed = split.images.stream(wanted, self.device)
        for chunk, images in zip(chunks, streamed, strict=True):
            if self.augment and not at_decoding:
                images = self.augment(images, len(chunk), part)
            rows = images.permute(0, 2, 3, 1).reshape(len(images) * height, width * channels)
            scaled = torch.empty(rows.shape, device=rows.device)
            some = max(1, SCALED // (width * channels) if rows.device.type == "cpu" else len(rows))
            for into, few in zip(scaled.split(some), rows.split(some), strict=True):
                into.copy_(few).mul_(scale).add_(shift)
            x = scaled.view(len(images), height, width, channels).permute(0, 3, 1, 2)
            if x.shape[1:] != split.shape:
                x = F.interpolate(x, size=split.shape[1:], mode="bilinear", antialias=True)
            yield x, split.labels[part(chunk)].to(self.device)
