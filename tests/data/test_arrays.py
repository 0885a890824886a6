"""arrays: where pixels land, exact statistics, memmaps that stay on disk, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from residua.data import arrays
from residua.data.from_arrays import channel_statistics
from residua.data.split import MemoryImages
from residua.data.task import forget_classes
from residua.errors import InputError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (12, 3, 5, 7), dtype=np.uint8)
LABELS = np.arange(12) % 4


def halves(**changes: Any) -> dict[str, Any]:
    given = {"train_images": IMAGES, "train_labels": LABELS, "test_images": IMAGES[:4], "test_labels": LABELS[:4]}
    return given | changes


@pytest.mark.parametrize("convert", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_batches_are_the_normalised_pixels_in_their_places(convert: Any) -> None:
    data = arrays(**{key: convert(value) for key, value in halves().items()})
    assert (data.name, data.classes, data.shape) == ("arrays", 4, (3, 5, 7))
    scaled = IMAGES / 255
    mean, std = scaled.mean((0, 2, 3)), scaled.std((0, 2, 3))
    expected = (scaled - mean[:, None, None]) / std[:, None, None]
    images, labels = zip(*data.train.batches(5), strict=True)
    np.testing.assert_allclose(torch.cat(images).numpy(), expected, atol=2e-6)
    assert torch.cat(labels).tolist() == LABELS.tolist()
    assert images[0].is_contiguous(memory_format=torch.channels_last)


def test_statistics_are_exact_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.from_numpy(IMAGES).permute(0, 2, 3, 1)
    whole = channel_statistics(pixels)
    monkeypatch.setitem(channel_statistics.__globals__, "_CHUNK", 2 * 105)
    assert channel_statistics(pixels) == whole
    np.testing.assert_allclose(whole, [(IMAGES / 255).mean((0, 2, 3)), (IMAGES / 255).std((0, 2, 3))], rtol=1e-12)


def test_statistics_of_large_data_do_not_drift() -> None:
    pixels = torch.full((400, 100, 100, 1), 255, dtype=torch.uint8)
    pixels[::2] = 0
    assert channel_statistics(pixels) == ((0.5,), (0.5,))


def test_a_constant_channel_is_not_divided_by_zero() -> None:
    grey = np.full((3, 1, 2, 2), 51, np.uint8)
    data = arrays(grey, [0, 1, 0], grey, [0, 1, 0])
    assert (data.train.mean, data.train.std) == ((0.2,), (1.0,))
    x, _ = next(iter(data.train.batches(3)))
    assert x.abs().max() < 1e-6


def test_given_statistics_are_kept_and_shared_with_the_test_split() -> None:
    data = arrays(**halves(mean=[0.1, 0.2, 0.3], std=(1, 2, 3)))
    assert data.train.mean == data.test.mean == (0.1, 0.2, 0.3)
    assert data.train.std == data.test.std == (1.0, 2.0, 3.0)


def test_size_enlarges_batches() -> None:
    data = arrays(**halves(size=9))
    x, _ = next(iter(data.test.batches(4)))
    assert data.shape == tuple(x.shape[1:]) == (3, 9, 9)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_memmap_stays_on_disk_and_gives_the_same_batches(tmp_path: Path, mode: Any) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode=mode)
    data, memory = arrays(**halves(train_images=mapped)), arrays(**halves())
    images = data.train.images
    assert isinstance(images, MemoryImages)
    assert not images.resident
    if mode == "r+":  # no copy: the file's pixels are the data's pixels
        mapped[3, 2, 1, 0] ^= 255
        assert images.pixels[3, 1, 0, 2] == mapped[3, 2, 1, 0] != IMAGES[3, 2, 1, 0]
        mapped[3, 2, 1, 0] ^= 255
    order = torch.tensor([7, 0, 11])
    left, right = (next(iter(d.train.subset(order).batches(3)))[0] for d in (data, memory))
    assert torch.equal(left, right)
    assert data.train.digest() == memory.train.digest()


def test_a_copied_memmap_is_ordinary_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    copied = np.load(tmp_path / "images.npy", mmap_mode="r").copy()
    images = arrays(**halves(train_images=copied)).train.images
    assert isinstance(images, MemoryImages)
    assert images.resident


@pytest.mark.parametrize("dtype", ["uint8", "int32", ">i4", "int64"])
def test_labels_of_any_integer_type(dtype: str) -> None:
    assert arrays(**halves(train_labels=LABELS.astype(dtype))).train.labels.tolist() == LABELS.tolist()


def test_a_flipped_view_is_accepted() -> None:
    data = arrays(**halves(train_images=IMAGES[:, :, :, ::-1]))
    flipped = data.train.images
    assert isinstance(flipped, MemoryImages)
    np.testing.assert_array_equal(flipped.pixels.permute(0, 3, 1, 2).numpy(), IMAGES[:, :, :, ::-1])


def test_class_names_set_the_number_of_classes() -> None:
    data = arrays(**halves(class_names=["a", "b", "c", "d", "e"]))
    assert (data.classes, data.class_names) == (5, ("a", "b", "c", "d", "e"))


def test_the_result_makes_a_forget_task() -> None:
    task = forget_classes(arrays(**halves()), 1)
    assert (len(task.forget), len(task.retain), len(task.test)) == (3, 9, 3)
    assert task.manifest()["duplicates"]["retain/test"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": IMAGES / 255.0}, "train_images has dtype float64.*multiply by 255"),
        ({"test_images": torch.zeros(4, 3, 5, 7)}, "test_images has dtype float32.*multiply by 255"),
        ({"train_images": IMAGES.astype(np.int64)}, "train_images has dtype int64.*convert to uint8"),
        ({"train_images": IMAGES[:, 0]}, r"train_images is 12 x 5 x 7.*train_images\[:, None\]"),
        ({"train_images": IMAGES.transpose(0, 2, 3, 1)}, r"N x H x W x C.*train_images.transpose\(0, 3, 1, 2\)"),
        ({"train_images": torch.tensor(IMAGES).permute(0, 2, 3, 1)}, r"train_images.permute\(0, 3, 1, 2\)"),
        ({"train_images": IMAGES[0, 0]}, "train_images is 5 x 7, expected N x C x H x W"),
        ({"train_images": np.uint8(3)}, "train_images is a number"),
        ({"train_images": IMAGES[:0], "train_labels": LABELS[:0]}, "train_images is 0 x 3 x 5 x 7"),
        ({"test_images": IMAGES[:4, :1]}, "test_images are 1 x 5 x 7"),
        ({"test_images": IMAGES[:4, :, :4]}, "test_images are 3 x 4 x 7"),
        ({"train_labels": LABELS[:-1]}, "train_labels has 11 labels for 12 images"),
        ({"test_labels": LABELS}, "test_labels has 12 labels for 4 images"),
        ({"train_labels": LABELS.astype(float)}, "train_labels has 1 dimensions and dtype float64"),
        ({"train_labels": np.eye(12, dtype=int)}, "train_labels has 2 dimensions"),
        ({"train_labels": LABELS > 1}, "train_labels has 1 dimensions and dtype bool"),
        ({"train_labels": LABELS - 1}, "train_labels run from -1 to 2, expected 0 to 2"),
        ({"test_labels": LABELS[:4] + 1}, "test_labels run from 1 to 4, expected 0 to 3"),
        ({"classes": 3}, "train_labels run from 0 to 3, expected 0 to 2"),
        ({"class_names": ("a", "b"), "classes": 4}, "class_names has 2 names"),
        ({"mean": (0.5,)}, "mean is .*each of the 3 channels"),
        ({"mean": (0.5, 0.5, float("nan"))}, "mean is .*finite"),
        ({"std": (0.5, 0.5, 0.0)}, "std is .*above 0"),
        ({"size": 0}, "size is 0"),
        ({"size": 2.5}, "size is 2.5"),
    ],
)
def test_bad_arrays_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        arrays(**halves(**changes))
