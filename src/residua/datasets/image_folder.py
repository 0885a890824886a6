"""image_folder: ImageNet's layout, a folder for each class, read from disk batch by batch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from residua.datasets.checks import Location, content, folder, need, per_channel, side
from residua.datasets.decoding import cores, decode, pixels
from residua.errors import InputError
from residua.split import Split
from residua.task import Dataset

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"}
_TEST_NAMES = ("test", "val", "validation")


def image_folder(
    dir: Location,
    *,
    size: int = 224,
    workers: int | None = None,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    name: str | None = None,
) -> Dataset:
    """Images in dir/train/CLASS/ and dir/test/CLASS/ (or val, validation), left on disk.

    Each batch is decoded when it is asked for, by `workers` processes (one for each core; 0 means
    in this process): RGB, shorter side to `size`, middle kept. Classes are the training folders in
    alphabetical order. A `test` without class folders, as ImageNet's, is passed over for `val`.
    """
    path = folder(dir)
    side(size)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}, expected 0 (decode in this process) or more")
    need("PIL.Image")
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
    scale = (per_channel(mean, 3, "mean"), per_channel(std, 3, "std"))

    def split(half: Path) -> Split:
        paths, labels = _labelled(half, names)
        images = ImageFiles(paths, size, cores() if workers is None else workers)
        return Split(images, torch.arange(len(paths)), labels, len(names), *scale)

    return Dataset(name or path.absolute().name, split(train), split(test), names)


class ImageFiles:
    """Image files, each decoded when a batch asks for it; `Images` for data larger than memory."""

    def __init__(self, paths: Sequence[Path], size: int, workers: int) -> None:
        self.paths = tuple(paths)
        self.size = size
        self.workers = workers

    @property
    def shape(self) -> tuple[int, int, int]:
        return 3, self.size, self.size

    def __len__(self) -> int:
        return len(self.paths)

    def stream(self, batches: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
        plan = [index.tolist() for index in batches]
        loader: DataLoader[Any] = DataLoader(
            _Decoder(self.paths, self.size),  # type: ignore[arg-type]
            batch_sampler=plan,
            num_workers=min(self.workers, len(plan)),
            collate_fn=_as_is,
            pin_memory=device.type == "cuda",
            # Its own: the default draws a seed from PyTorch's global generator, which is the caller's.
            generator=torch.Generator(),
        )
        for images in loader:
            if isinstance(images, str):
                raise InputError(images)
            yield images.to(device, non_blocking=True).permute(0, 3, 1, 2)

    def digests(self) -> list[bytes]:
        """Of the files' bytes: the same picture in two encodings counts as two."""
        return self._digests

    @cached_property
    def _digests(self) -> list[bytes]:
        def digest(path: Path) -> bytes:
            return hashlib.blake2b(content(path), digest_size=16).digest()

        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(digest, self.paths))


class _Decoder:
    """What runs in a worker. An error comes back as its sentence: raised there, it would arrive as
    a traceback in a string."""

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths = paths
        self.size = size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitems__(self, index: list[int]) -> Tensor | str:
        batch = torch.empty(len(index), self.size, self.size, 3, dtype=torch.uint8)
        rows = batch.numpy()
        try:
            for row, i in zip(rows, index, strict=True):
                row[:] = pixels(decode(content(self.paths[i]), str(self.paths[i])), 3, self.size)
        except InputError as error:
            return str(error)
        return batch


def _as_is(batch: Any) -> Any:
    return batch


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
        counts.append(len(found))
    return paths, torch.from_numpy(np.repeat(np.arange(len(names)), counts).astype(np.int64))
