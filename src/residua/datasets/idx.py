"""fashion_mnist, mnist: four IDX files each, gzipped or not."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from residua.datasets.arrays import arrays
from residua.datasets.checks import Location, content, folder
from residua.errors import InputError
from residua.task import Dataset

FASHION_CLASSES = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def fashion_mnist(dir: Location, *, size: int | None = None) -> Dataset:
    """Fashion-MNIST from its four IDX files in `dir`."""
    return _four_files(dir, "fashion-mnist", FASHION_CLASSES, size)


def mnist(dir: Location, *, size: int | None = None) -> Dataset:
    """MNIST from its four IDX files in `dir`."""
    return _four_files(dir, "mnist", tuple("0123456789"), size)


def read_idx(path: Path, ndim: int) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file.

    Whether the file is gzipped is seen from its first bytes: some browsers unpack a download and
    keep the name.
    """
    raw = content(path)
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"{path} is damaged or cut short, expected a whole gzip file; get it again"
            ) from error
    header = 4 + 4 * ndim
    if len(raw) < header or raw[:4] != bytes((0, 0, 8, ndim)):
        raise InputError(
            f"{path} is not an IDX file, expected one that begins with the bytes 0 0 8 {ndim} "
            f"(unsigned bytes, {ndim} dimensions) and its sizes; get it again"
        )
    shape = struct.unpack(f">{ndim}I", raw[4:header])
    if len(raw) - header != math.prod(shape):
        raise InputError(
            f"{path} holds {len(raw) - header} values, expected {' x '.join(map(str, shape))} as its "
            "header says; get it again"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def find_idx(dir: Path, stem: str, ndim: int) -> Path:
    """The file of `stem` ("train-images", …) under any of its usual names."""
    names = [f"{stem}{dot}idx{ndim}-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    for name in names:
        if (dir / name).is_file():
            return dir / name
    raise InputError(
        f"{dir} has no {names[0]}, gzipped (.gz) or not; give the folder that holds the IDX files"
    )


def read_pair(dir: Path, stem: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images (N, H, W) and labels (N) of one half, "train" or "t10k"."""
    images_path, labels_path = find_idx(dir, f"{stem}-images", 3), find_idx(dir, f"{stem}-labels", 1)
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if not images.size:
        raise InputError(f"{images_path} holds no pixels, expected at least one image; get it again")
    if len(images) != len(labels):
        raise InputError(
            f"{images_path} holds {len(images)} images but {labels_path} {len(labels)} labels, expected "
            "one for each; take both from one source"
        )
    if labels.max() > 9:
        raise InputError(f"{labels_path} holds the label {labels.max()}, expected 0 to 9; get it again")
    return images, labels


def _four_files(dir: Location, name: str, class_names: tuple[str, ...], size: int | None) -> Dataset:
    path = folder(dir)
    (images, labels), (asked, answers) = read_pair(path, "train"), read_pair(path, "t10k")
    if images.shape[1:] != asked.shape[1:]:
        raise InputError(
            f"{path} holds training images of {images.shape[1]} x {images.shape[2]} pixels and test images "
            f"of {asked.shape[1]} x {asked.shape[2]}, expected one shape; take all files from one source"
        )
    return arrays(
        images[:, None], labels, asked[:, None], answers, class_names=class_names, name=name, size=size
    )
