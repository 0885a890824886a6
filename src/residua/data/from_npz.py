"""npz: images and labels as arrays in one .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from residua.data.checks import ELSEWHERE, Location
from residua.data.from_arrays import arrays
from residua.data.task import Dataset
from residua.errors import InputError
from residua.npz import Header, read_npz

# Which array is which; the first spelling is ours, the others are common.
NAMES = {
    "train_images": ("train_images", "x_train", "X_train", "images_train"),
    "train_labels": ("train_labels", "y_train", "Y_train", "labels_train"),
    "test_images": ("test_images", "x_test", "X_test", "images_test"),
    "test_labels": ("test_labels", "y_test", "Y_test", "labels_test"),
}
KNOWN = {spelling: name for name, spellings in NAMES.items() for spelling in spellings}


def npz(
    file: Location,
    *,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    class_names: Sequence[str] = (),
    name: str | None = None,
) -> Dataset:
    """train_images, train_labels, test_images and test_labels (or x_train, y_train, x_test, y_test) of an .npz file.

    Images are N x C x H x W, N x H x W x C or, if grey, N x H x W: whole numbers from 0 to 255, or floats in [0, 1]
    that are such numbers divided by 255. Other values are refused by their header or before they are used. Further
    arrays, such as a validation set, are not read.
    """
    path = Path(file)
    found = read_npz(path, _name, cost=_cost, what="an .npz file of images and labels")
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise InputError(
            f"{path} has no {' and no '.join(missing)}; save train_images, train_labels, test_images and test_labels. "
            f"{ELSEWHERE}"
        )
    train, test = (
        as_pixels(found[f"{half}_images"], f"{half}_images of {path}") for half in ("train", "test")
    )
    labels, answers = (_labels(found[f"{half}_labels"]) for half in ("train", "test"))
    return arrays(
        train, labels, test, answers,
        mean=mean, std=std, class_names=class_names, name=name or path.stem, size=size,
    )  # fmt: skip


def _name(member: zipfile.ZipInfo) -> str:
    name = member.filename.removesuffix(".npy")
    return KNOWN.get(name, name)


def _cost(name: str, header: Header) -> int:
    if name in ("train_images", "test_images"):
        check_kind(header.dtype, name)
        if len(header.shape) not in (3, 4):
            raise InputError(
                f"{name} has {' x '.join(map(str, header.shape))} numbers, expected N x height x width, with channels or "
                f"without; save images. {ELSEWHERE}"
            )
    return header.size


def check_kind(dtype: np.dtype, what: str) -> None:
    """Refuse by its type what cannot be pixels of 8 bits, before it is read."""
    if dtype.kind in "uif" and dtype.itemsize <= 8:
        return
    raise InputError(f"{what} holds {dtype}, expected whole numbers from 0 to 255; save the pixels as uint8")


def as_pixels(images: np.ndarray, what: str) -> np.ndarray:
    """uint8 images N x C x H x W, without loss; what could only be had with loss is refused."""
    check_kind(images.dtype, what)
    if images.dtype != np.uint8 and images.size:
        images = _without_loss(images, what)
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return images.transpose(0, 3, 1, 2)
    return images


def _without_loss(images: np.ndarray, what: str) -> np.ndarray:
    low, high = images.min(), images.max()
    values = images
    if images.dtype.kind == "f":
        if not np.isfinite([low, high]).all():
            raise InputError(f"{what} holds NaN or infinite values; save finite pixels")
        if low < 0:
            raise InputError(
                f"{what} runs from {low:.3g} to {high:.3g}, which looks standardised, expected pixels from 0 to 255; "
                "undo it (x * std + mean, then times 255, rounded) and give --mean and --std, or save the pixels as "
                "they were before"
            )
        values = np.rint(images * (255.0 if high <= 1 else 1.0))
        if high > 255 or np.abs(images * (255.0 if high <= 1 else 1.0) - values).max() > 0.02:
            raise InputError(
                f"{what} runs from {low:.3g} to {high:.3g} in steps finer than 8 bits, expected pixels from 0 to 255; "
                "save the 8-bit images that the model was trained on, or audit saved features"
            )
    elif low < 0 or high > 255:
        raise InputError(
            f"{what} runs from {low} to {high} in {images.dtype}, expected pixels from 0 to 255; save 8-bit copies as "
            "the model's own loader makes them (keep the originals), or audit saved features"
        )
    return values.astype(np.uint8)


def _labels(labels: np.ndarray) -> np.ndarray:
    """One label per image, also where they stand in a column."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
