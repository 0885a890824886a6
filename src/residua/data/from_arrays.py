"""arrays, npz and fashion_sample: images that already are arrays, in memory, in an .npz file, or in the package's own.

Every loader that ends in memory ends in `arrays`.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from residua.data.checks import ELSEWHERE, Location
from residua.data.split import MemoryImages, Split, per_channel, side
from residua.data.task import Dataset
from residua.errors import InputError
from residua.limits import check
from residua.npz import Header, read_npz

Array = npt.NDArray[Any] | Tensor
Scale = Sequence[float] | None

_CHUNK = 1 << 24  # values counted at once


def arrays(
    train_images: Array,
    train_labels: Array | Sequence[int],
    test_images: Array,
    test_labels: Array | Sequence[int],
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    classes: int | None = None,
    class_names: Sequence[str] = (),
    name: str = "arrays",
    size: int | None = None,
) -> Dataset:
    """A data set of uint8 arrays or tensors (N, C, H, W) and whole-number labels.

    A `np.memmap` stays on disk and is read a batch at a time; other arrays are copied only where channels-last memory
    asks for it.

    Args:
        train_images: Training images.
        train_labels: One label for each of them.
        test_images: Test images of the same shape.
        test_labels: One label for each of them.
        mean: Mean of each channel, white being 1; by default that of all training pixels, exactly.
        std: Standard deviation of each channel, likewise.
        classes: Number of classes; by default that of `class_names`, or one more than the largest training label.
        class_names: Names of the classes.
        name: Name of the data set, by which recipes are found.
        size: Side in pixels that images are resized to, per batch; by default they keep their size.
    """
    train, test = _images(train_images, "train_images"), _images(test_images, "test_images")
    if train.shape != test.shape:
        raise InputError(
            f"train_images are {_by(train.shape)} (channels, height, width) but test_images are "
            f"{_by(test.shape)}; bring both to one shape"
        )
    labels = _labels(train_labels, "train_labels", len(train))
    asked = _labels(test_labels, "test_labels", len(test))
    names = tuple(class_names)
    count = classes if classes is not None else len(names) or int(labels.max()) + 1
    check(name, "classes", count)
    if names and len(names) != count:
        raise InputError(f"class_names has {len(names)} names, expected one for each of {count} classes")
    for what, given in (("train_labels", labels), ("test_labels", asked)):
        if not 0 <= int(given.min()) <= int(given.max()) < count:
            raise InputError(
                f"{what} run from {int(given.min())} to {int(given.max())}, expected 0 to {count - 1}; "
                "correct the labels or give classes="
            )
    computed = channel_statistics(train.pixels) if mean is None or std is None else ((), ())
    mean = per_channel(computed[0] if mean is None else mean, train.shape[0], "mean")
    std = per_channel(computed[1] if std is None else std, train.shape[0], "std")
    return Dataset(
        name=name,
        train=Split(train, torch.arange(len(train)), labels, count, mean, std, side(size)),
        test=Split(test, torch.arange(len(test)), asked, count, mean, std, side(size)),
        class_names=names,
        notes=_notes(labels, names, count, name),
    )


def _notes(labels: Tensor, names: Sequence[str], count: int, name: str) -> tuple[str, ...]:
    """A note about labels that do not begin at 0: models count their outputs from 0."""
    first = int(labels.min())
    if first == 0 or names:
        return ()
    empty = "class 0 has" if first == 1 else f"the classes 0 to {first - 1} have"
    return (
        f"the labels of {name} run from {first} to {int(labels.max())}, so {empty} no images, of {count} classes; if the model "
        f"counts from 0, subtract {first} from the labels",
    )


def channel_statistics(pixels: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 images (N, H, W, C), white being 1.

    Counted, not summed in floats: a histogram of 256 whole numbers gives both exactly, in chunks,
    in any order. The deviation of a constant channel is given as 1.
    """
    channels = pixels.shape[3]
    histogram = torch.zeros(channels, 256, dtype=torch.int64)
    for chunk in torch.split(pixels, max(1, _CHUNK // math.prod(pixels.shape[1:]))):
        for c in range(channels):
            histogram[c] += torch.bincount(chunk[..., c].reshape(-1), minlength=256).cpu()
    means, deviations = [], []
    for row in histogram.tolist():
        n = sum(row)
        first = sum(value * times for value, times in enumerate(row))
        second = sum(value * value * times for value, times in enumerate(row))
        means.append(first / n / 255)
        deviations.append(math.sqrt(n * second - first * first) / n / 255 or 1.0)
    return tuple(means), tuple(deviations)


def _images(images: Array, what: str) -> MemoryImages:
    given = images if isinstance(images, Tensor) else np.asanyarray(images)
    dtype = str(given.dtype).removeprefix("torch.")
    if dtype != "uint8":
        raise InputError(f"{what} has dtype {dtype}, expected uint8 from 0 to 255; {_advice(given, dtype)}")
    shape = tuple(given.shape)
    if len(shape) == 3:
        raise InputError(
            f"{what} is {_by(shape)}, expected N x C x H x W; for N x H x W add the channel axis with {what}[:, None]"
        )
    if len(shape) != 4 or not math.prod(shape):
        raise InputError(f"{what} is {_by(shape) or 'a number'}, expected N x C x H x W with none of them 0")
    if shape[3] <= 4 < shape[1]:
        order = "permute" if isinstance(given, Tensor) else "transpose"
        raise InputError(
            f"{what} is {_by(shape)}, which looks like N x H x W x C, expected N x C x H x W; "
            f"pass {what}.{order}(0, 3, 1, 2)"
        )
    if isinstance(given, Tensor):
        return MemoryImages(given.permute(0, 2, 3, 1).contiguous())
    pixels = given.transpose(0, 2, 3, 1)
    # A memmap that was copied keeps its type but not its file, and PyTorch takes no negative strides.
    if isinstance(given, np.memmap) and getattr(given, "_mmap", None) is not None and min(given.strides) > 0:
        with warnings.catch_warnings():
            # PyTorch warns of files opened read-only; nobody writes to the images.
            warnings.simplefilter("ignore", UserWarning)
            return MemoryImages(torch.from_numpy(pixels), resident=False)
    pixels = np.ascontiguousarray(pixels)
    return MemoryImages(torch.from_numpy(pixels if pixels.flags.writeable else pixels.copy()))


def _advice(given: Any, dtype: str) -> str:
    """Advice on converting these values to pixels without loss."""
    if not dtype.startswith(("float", "bfloat")) or not math.prod(given.shape):
        return "convert to uint8 if no value is above 255; otherwise make 8-bit copies as the model's own loader does"
    low, high = float(given.min()), float(given.max())
    if low < 0:
        return (
            f"values from {low:.3g} to {high:.3g} look standardised: undo that (x * std + mean, times 255, rounded) and "
            "give mean= and std="
        )
    return "multiply by 255, round and convert to uint8" if high <= 1 else "round and convert to uint8"


def _labels(labels: Array | Sequence[int], what: str, images: int) -> Tensor:
    given = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError(
            f"{what} has {given.ndim} dimensions and dtype {given.dtype}, expected one whole number "
            "for each image; convert to an integer type"
        )
    if len(given) != images:
        raise InputError(f"{what} has {len(given)} labels for {images} images; give one label for each image")
    return torch.from_numpy(given.astype(np.int64))


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


FASHION_CLASSES = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def fashion_sample(*, size: int | None = None, mean: Scale = None, std: Scale = None) -> Dataset:
    """6,000 training and 1,000 test images of Fashion-MNIST, 600 and 100 of each class.

    No image occurs twice, so nothing that is forgotten is also retained or asked about. Made by
    `reproduction/fashion_sample.py`; Fashion-MNIST is Zalando SE's, under the MIT licence kept
    next to it.
    """
    packed = resources.files("residua.data").joinpath("embedded/fashion_sample.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as file:
        train, labels, test, answers = (
            file[key] for key in ("train_images", "train_labels", "test_images", "test_labels")
        )
    return arrays(
        train[:, None], labels, test[:, None], answers,
        class_names=FASHION_CLASSES, name="fashion-sample", size=size, mean=mean, std=std,
    )  # fmt: skip


# Spellings of each array's name; the first is ours, the others are common.
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

    Args:
        file: The .npz file.
        size: Side in pixels that images are resized to, per batch.
        mean: Mean of each channel, white being 1; by default that of the training pixels.
        std: Standard deviation of each channel, likewise.
        class_names: Names of the classes.
        name: Name of the data set; by default that of the file.
    """
    path = Path(file)
    found = read_npz(path, _name, cost=_cost, what="an .npz file of images and labels")
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise InputError(
            f"{path} has no {' and no '.join(missing)}; save train_images, train_labels, test_images and test_labels. "
            f"{ELSEWHERE}"
        )
    train, test = (as_pixels(found[f"{half}_images"], f"{half}_images of {path}") for half in ("train", "test"))
    labels, answers = (_column(found[f"{half}_labels"]) for half in ("train", "test"))
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
    """uint8 images N x C x H x W, converted without loss or refused."""
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


def _column(labels: np.ndarray) -> np.ndarray:
    """One label per image, also where they stand in a column."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
