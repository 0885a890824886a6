"""parquet: the Hugging Face hub's export, encoded images in a column of bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.data.checks import Location, folder, side
from residua.data.decoding import cores, decode, pixels
from residua.data.from_arrays import Scale, arrays
from residua.data.parquet_files import Columns, choose_columns, find_splits, read_images, read_labels
from residua.data.task import Dataset
from residua.device import memory_budget
from residua.errors import InputError
from residua.limits import Clock, check, check_growth

_SLICE = 64  # images that one thread decodes at a time
_MOST_BYTES = 1 << 25  # of encoded images that are held at once


@dataclass(frozen=True)
class _Shape:
    """What every image of the data set becomes."""

    channels: int
    height: int
    width: int
    fitted: bool  # resized and cropped while decoding


class _OtherShape(Exception):
    """An image does not fit the shape assumed so far; this one fits it too."""

    def __init__(self, shape: _Shape) -> None:
        self.shape = shape


def parquet(
    dir: Location,
    *,
    image: str | None = None,
    label: str | None = None,
    name: str | None = None,
    size: int | None = None,
    budget: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Scale = None,
    std: Scale = None,
) -> Dataset:
    """A data set as the Hugging Face hub exports it: parquet files of encoded images and labels.

    Columns are found by their types, class names in the files' metadata. Images are grey if all
    are, else RGB. With `size`, images become size x size: square ones no larger than that are kept
    as they are and enlarged per batch on the device, all others are resized and cropped while
    decoding. Pixels that take more than `budget` bytes (a quarter of the memory) go to a
    temporary file without a name, which disappears with the process.
    """
    path = folder(dir)
    side(size)
    train_files, test_files = find_splits(path)
    columns = choose_columns(train_files[0], image, label)
    for file in train_files + test_files:
        choose_columns(file, columns.image, columns.label)
    labels, answers = read_labels(train_files, columns), read_labels(test_files, columns)
    names = columns.class_names if class_names is None else tuple(class_names)
    classes = len(names) or int(labels.max()) + 1
    for files, values in ((train_files, labels), (test_files, answers)):
        if values.max() >= classes:
            raise InputError(
                f"{files[0].parent} has the {columns.label} {values.max()} in {files[0].name}, expected 0 to "
                f"{classes - 1} for {classes} classes; correct the labels or class_names="
            )
    check(path, "classes", classes)
    counts = (len(labels), len(answers))
    on_disk = sum(file.stat().st_size for file in train_files + test_files)
    shape = _first_shape(train_files, columns, size)
    while True:
        # Shapes are known only once decoded, so we assume that all are like the first and start
        # over when one is not: it nearly always shows within the first batch, or never.
        try:
            _check_pixels(path, shape, counts, on_disk)
            stores = _stores(shape, counts, memory_budget() if budget is None else budget)
            for files, store in zip((train_files, test_files), stores, strict=True):
                _fill(store, files, columns, shape, size)
            break
        except _OtherShape as found:
            shape = found.shape
    train, test = (store.transpose(0, 3, 1, 2) for store in stores)
    return arrays(
        train, labels, test, answers,
        class_names=names, name=name or path.absolute().name, size=size, mean=mean, std=std,
    )  # fmt: skip


def _check_pixels(path: Path, shape: _Shape, counts: tuple[int, int], on_disk: int) -> None:
    """Refuse what decodes into far more than the files have, or than the disk has room for."""
    total = sum(counts) * shape.height * shape.width * shape.channels
    check(f"the images of {path}", "disk", total)
    check_growth(f"the images of {path}", total, on_disk)


def _first_shape(files: list[Path], columns: Columns, size: int | None) -> _Shape:
    where, data = next(_located(files, columns, batch=1))
    first = decode(data, where)
    width, height = first.size
    channels = 1 if first.mode == "L" else 3
    if size is not None and (width != height or width > size):
        return _Shape(channels, size, size, fitted=True)
    return _Shape(channels, height, width, fitted=False)


def _fill(
    store: npt.NDArray[np.uint8], files: list[Path], columns: Columns, shape: _Shape, size: int | None
) -> None:
    """Decode every image into its row of `store`, a record batch at a time, in threads."""
    row = 0
    clock = Clock(files[0].parent, sum(file.stat().st_size for file in files))

    def decode_slice(start: int, images: list[tuple[str, bytes]]) -> None:
        for i, (where, data) in enumerate(images):
            image = decode(data, where)
            _check_shape(image, where, shape, size)
            store[start + i] = pixels(image, shape.channels, size if shape.fitted else None)

    with ThreadPoolExecutor(cores()) as pool:
        for batch in _batched(_located(files, columns), 8 * _SLICE):
            starts = range(0, len(batch), _SLICE)
            slices = [batch[i : i + _SLICE] for i in starts]
            list(pool.map(decode_slice, [row + i for i in starts], slices))
            clock.check()
            row += len(batch)


def _check_shape(image: Any, where: str, shape: _Shape, size: int | None) -> None:
    fits = shape
    if image.mode != "L" and shape.channels == 1:
        fits = replace(fits, channels=3)
    if not shape.fitted and image.size != (shape.width, shape.height):
        if size is None:
            raise InputError(
                f"{where} is {image.size[0]} x {image.size[1]} pixels but the first image is "
                f"{shape.width} x {shape.height}; give the size that the model was trained on, such as --size 224 "
                "(in Python, size=)"
            )
        fits = replace(fits, height=size, width=size, fitted=True)
    if fits != shape:
        raise _OtherShape(fits)


def _located(files: list[Path], columns: Columns, batch: int = 256) -> Iterator[tuple[str, bytes]]:
    for file in files:
        for row, data in enumerate(read_images(file, columns, batch)):
            where = f"row {row} of {file}"
            if data is None:
                raise InputError(
                    f"{where} has no image bytes, expected an encoded image; fill or remove the row"
                )
            yield where, data


def _batched(items: Iterator[tuple[str, bytes]], n: int) -> Iterator[list[tuple[str, bytes]]]:
    batch = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item[1])
        if len(batch) == n or size > _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _stores(shape: _Shape, counts: tuple[int, int], budget: int) -> list[npt.NDArray[np.uint8]]:
    """Room for the training and the test images: in memory, or in files beyond the budget."""
    shapes = [(n, shape.height, shape.width, shape.channels) for n in counts]
    if sum(counts) * shape.height * shape.width * shape.channels <= budget:
        return [np.empty(each, np.uint8) for each in shapes]
    return [_mapped(each) for each in shapes]


def _mapped(shape: tuple[int, int, int, int]) -> npt.NDArray[np.uint8]:
    length = int(np.prod(shape, dtype=np.int64))
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                # A full disk must say so now; later, writing to the mapping would kill the process.
                os.posix_fallocate(file.fileno(), 0, length)
            return np.memmap(file, np.uint8, mode="r+", shape=shape)
    except OSError as error:
        raise InputError(
            f"the temporary folder {tempfile.gettempdir()} has no room for {length} bytes of decoded images; "
            "set TMPDIR to a folder that has, or raise budget="
        ) from error
