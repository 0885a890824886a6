"""image_folder: ImageNet's layout, a folder for each class, read from disk batch by batch."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from residua.data.checks import Location, content, folder, need, per_channel, side
from residua.data.decoding import cores, decode, pixels
from residua.data.examining import examine
from residua.data.preprocessing import imagenet
from residua.data.split import Split
from residua.data.task import Dataset
from residua.errors import InputError
from residua.limits import check

_ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"}
_TEST_NAMES = ("test", "val", "validation")


def image_folder(
    dir: Location,
    *,
    size: int | None = None,
    workers: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    name: str | None = None,
) -> Dataset:
    """Images in dir/train/CLASS/ and dir/test/CLASS/ (or val, validation), left on disk.

    Without a `size` all images must have one size, which they keep. Up to 64 x 64 pixels they are read into memory and
    normalised by their own mean and deviation, like any other small data set, also where a larger `size` enlarges squares
    per batch. Otherwise, where `mean` and `std` are
    not given, they are ImageNet's. A folder of images with labels.csv (path, label, train or test), or with train.txt and
    test.txt (path, label), is read by that list.

    Each batch is decoded when it is asked for, by `workers` threads (one for each core; 0 means
    in the caller's): RGB, shorter side to `size`, middle kept. Classes are the training folders in
    alphabetical order. A `test` without class folders, as ImageNet's, is passed over for `val`.
    """
    path = folder(dir)
    side(size)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}, expected 0 (decode in the caller's thread) or more")
    need("PIL.Image")
    from residua.data.from_list import csv, labelled, two_lists  # which needs ImageFiles

    more: dict[str, Any] = {"size": size, "mean": mean, "std": std, "workers": workers}
    more["name"] = name or path.absolute().name
    lists = _lists(path)
    if len(lists) == 1:
        return csv(lists[0], **more)
    if lists:
        return two_lists(*lists, **more)
    names, halves = _halves(path)
    look = examine(halves["train"][0] + halves["test"][0], size)
    if size is None or (look is not None and look.in_memory(size)):
        rows = {
            half: [(file, names[c]) for file, c in zip(files, labels.tolist(), strict=True)]
            for half, (files, labels) in halves.items()
        }
        return labelled(path, rows, **more, class_names=names)
    channels = 3 if look is None else look.channels
    scale = lazy_scale(channels, mean, std)

    def split(half: str) -> Split:
        paths, labels = halves[half]
        images = ImageFiles(paths, size, cores() if workers is None else workers, channels)
        return Split(images, torch.arange(len(paths)), labels, len(names), *scale)

    return Dataset(name or path.absolute().name, split("train"), split("test"), names)


def _halves(path: Path) -> tuple[tuple[str, ...], dict[str, tuple[list[Path], Tensor]]]:
    """The classes, and the files and labels of `train` and `test`."""
    train = folder(path / "train")
    names = tuple(_class_folders(train))
    if not names:
        raise InputError(
            f"{train} has no folders, expected one for each class; give a folder in ImageNet's layout"
        )
    test = next((path / half for half in _TEST_NAMES if _class_folders(path / half)), None)
    if test is None:
        raise InputError(f"{path} has no test, val or validation with a folder for each class; put one there")
    for strange in sorted(set(_class_folders(test)) - set(names)):
        raise InputError(
            f"{test / strange} is a class that {train} does not have; rename or remove the folder"
        )
    check(train, "classes", len(names))
    return names, {"train": _labelled(train, names), "test": _labelled(test, names)}


def lazy_scale(
    channels: int, mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of images that are not read before they are needed: ImageNet's, unless they are given."""
    usual = imagenet(channels)
    return (
        per_channel(usual[0] if mean is None else mean, channels, "mean"),
        per_channel(usual[1] if std is None else std, channels, "std"),
    )


class ImageFiles:
    """Image files, each decoded when a batch asks for it; `Images` for data larger than memory."""

    def __init__(self, paths: Sequence[Path], size: int, workers: int, channels: int = 3) -> None:
        self.paths = tuple(paths)
        self.size = size
        self.workers = workers
        self.channels = channels

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

    def __len__(self) -> int:
        return len(self.paths)

    def stream(self, batches: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
        for images in self._decoded(index.tolist() for index in batches):
            pinned = images.pin_memory() if device.type == "cuda" else images
            yield pinned.to(device, non_blocking=True).permute(0, 3, 1, 2)

    def _decoded(self, plan: Iterator[list[int]]) -> Iterator[Tensor]:
        """The batches in order, a few of them ahead of whoever asks."""
        if not self.workers:
            yield from map(self._batch, plan)
            return
        # Threads, since Pillow decodes and resizes outside of Python's lock; processes would have to be started in
        # ways that import from the working directory, and could outlive this one.
        with ThreadPoolExecutor(self.workers) as pool:
            ahead = deque(
                pool.submit(self._batch, index) for index in itertools.islice(plan, 2 * self.workers)
            )
            try:
                while ahead:
                    images = ahead.popleft().result()
                    ahead.extend(pool.submit(self._batch, index) for index in itertools.islice(plan, 1))
                    yield images
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _batch(self, index: list[int]) -> Tensor:
        batch = torch.empty(len(index), self.size, self.size, self.channels, dtype=torch.uint8)
        for row, i in zip(batch.numpy(), index, strict=True):
            row[:] = pixels(decode(content(self.paths[i]), str(self.paths[i])), self.channels, self.size)
        return batch

    def digests(self) -> list[bytes]:
        """Of the files' bytes: the same picture in two encodings counts as two."""
        return self._digests

    @cached_property
    def _digests(self) -> list[bytes]:
        def digest(path: Path) -> bytes:
            return hashlib.blake2b(content(path), digest_size=16).digest()

        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(digest, self.paths))


def _lists(path: Path) -> list[Path]:
    """The list of a folder without class folders, or its two lists."""
    if (path / "train").is_dir():
        return []
    alone = [path / name for name in ("labels.csv", "labels.tsv", "labels.txt") if (path / name).is_file()]
    if alone:
        return alone[:1]
    for ending in ("csv", "tsv", "txt"):
        test = next(
            (path / f"{half}.{ending}" for half in _TEST_NAMES if (path / f"{half}.{ending}").is_file()), None
        )
        if test is not None and (path / f"train.{ending}").is_file():
            return [path / f"train.{ending}", test]
    return []


def _class_folders(half: Path) -> list[str]:
    if not half.is_dir():
        return []
    with os.scandir(half) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _labelled(half: Path, names: Sequence[str]) -> tuple[list[Path], Tensor]:
    paths: list[Path] = []
    counts = []
    for name in names:
        found = sorted(
            Path(place, file)
            for place, _, files in os.walk(half / name)
            for file in files
            if Path(file).suffix.lower() in _ENDINGS and not file.startswith(".")
        )
        if not found and (half / name).is_dir():
            raise InputError(
                f"{half / name} holds no images, expected .jpg, .png or the like; fill or remove it"
            )
        paths += found
        check(half, "rows", len(paths))
        counts.append(len(found))
    return paths, torch.from_numpy(np.repeat(np.arange(len(names)), counts).astype(np.int64))
