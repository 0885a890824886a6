"""fashion_mnist and mnist, four IDX files each, gzipped or not."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from residua.data.checks import Location, content, folder
from residua.data.from_arrays import FASHION_CLASSES, Scale, arrays
from residua.data.task import Dataset
from residua.errors import InputError
from residua.files import reading
from residua.limits import check_unpacked


def fashion_mnist(dir: Location, *, size: int | None = None, mean: Scale = None, std: Scale = None) -> Dataset:
    """Fashion-MNIST from its four IDX files.

    Args:
        dir: The folder of the files, gzipped or not.
        size: Side in pixels that images are resized to, per batch.
        mean: Mean of the pixels, white being 1; by default that of the training pixels.
        std: Standard deviation, likewise.
    """
    return _four_files(dir, "fashion-mnist", FASHION_CLASSES, size, mean, std)


def mnist(dir: Location, *, size: int | None = None, mean: Scale = None, std: Scale = None) -> Dataset:
    """MNIST from its four IDX files.

    Args:
        dir: The folder of the files, gzipped or not.
        size: Side in pixels that images are resized to, per batch.
        mean: Mean of the pixels, white being 1; by default that of the training pixels.
        std: Standard deviation, likewise.
    """
    return _four_files(dir, "mnist", tuple("0123456789"), size, mean, std)


def read_idx(path: Path, ndim: int) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file.

    Whether the file is gzipped is seen from its first bytes: some browsers unpack a download and
    keep the name.
    """
    raw, more = _unpacked(path, 4 + 4 * ndim)
    header = 4 + 4 * ndim
    if len(raw) < header or raw[:4] != bytes((0, 0, 8, ndim)):
        raise InputError(
            f"{path} is not an IDX file, expected one that begins with the bytes 0 0 8 {ndim} "
            f"(unsigned bytes, {ndim} dimensions) and its sizes; get it again"
        )
    shape = struct.unpack(f">{ndim}I", raw[4:header])
    if more or len(raw) - header != math.prod(shape):
        raise InputError(
            f"{path} holds {'more than ' if more else ''}{len(raw) - header} values, expected "
            f"{' x '.join(map(str, shape))} as its header says; get it again"
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _unpacked(path: Path, header: int) -> tuple[bytes, bool]:
    """The content as far as its header says that it goes, and whether there is more."""
    packed = content(path)
    if packed[:2] != b"\x1f\x8b":
        return packed, False
    try:
        with reading(path), gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            head = file.read(header)
            size = math.prod(struct.unpack(f">{len(head[4:]) // 4}I", head[4:])) if len(head) == header else 0
            check_unpacked(path, header + size, len(packed))
            body = file.read(size)
            return head + body, bool(file.read(1))  # to the end, where gzip's checksum stands
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise InputError(f"{path} is damaged or cut short, expected a whole gzip file; get it again") from error


def find_idx(dir: Path, stem: str, ndim: int) -> Path:
    """The file of `stem` ("train-images", …) under any of its usual names."""
    names = [f"{stem}{dot}idx{ndim}-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    for name in names:
        if (dir / name).is_file():
            return dir / name
    raise InputError(f"{dir} has no {names[0]}, gzipped (.gz) or not; give the folder that holds the IDX files")


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


def _four_files(
    dir: Location, name: str, class_names: tuple[str, ...], size: int | None, mean: Scale, std: Scale
) -> Dataset:
    path = folder(dir)
    (images, labels), (asked, answers) = read_pair(path, "train"), read_pair(path, "t10k")
    if images.shape[1:] != asked.shape[1:]:
        raise InputError(
            f"{path} holds training images of {images.shape[1]} x {images.shape[2]} pixels and test images "
            f"of {asked.shape[1]} x {asked.shape[2]}, expected one shape; take all files from one source"
        )
    return arrays(
        images[:, None], labels, asked[:, None], answers,
        class_names=class_names, name=name, size=size, mean=mean, std=std,
    )  # fmt: skip
