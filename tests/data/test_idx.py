"""fashion_mnist, mnist: IDX files under all their names, and damaged ones."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from residua.data import fashion_mnist, mnist
from residua.data.task import Dataset
from residua.errors import InputError

TRAIN = np.random.default_rng(1).integers(0, 256, (20, 6, 5), dtype=np.uint8)
TEST = np.random.default_rng(2).integers(0, 256, (10, 6, 5), dtype=np.uint8)
TEN = np.arange(10, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(dir: Path, *, dot: str = "-", zipped: bool = True) -> Path:
    for stem, images, labels in (("train", TRAIN, np.tile(TEN, 2)), ("t10k", TEST, TEN)):
        for kind, n, array in (("images", 3, images), ("labels", 1, labels)):
            data = gzip.compress(idx(array)) if zipped else idx(array)
            (dir / f"{stem}-{kind}{dot}idx{n}-ubyte{'.gz' if zipped else ''}").write_bytes(data)
    return dir


def check(data: Dataset) -> None:
    assert (data.classes, data.shape, len(data.class_names)) == (10, (1, 6, 5), 10)
    mean, std = (TRAIN / 255).mean(), (TRAIN / 255).std()
    for split, images in ((data.train, TRAIN), (data.test, TEST)):
        x, y = next(iter(split.batches(len(images))))
        np.testing.assert_allclose(x[:, 0].numpy(), (images / 255 - mean) / std, atol=2e-6)
        assert y.tolist() == [i % 10 for i in range(len(images))]


@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("zipped", [True, False])
def test_all_spellings(tmp_path: Path, dot: str, zipped: bool) -> None:
    write(tmp_path, dot=dot, zipped=zipped)
    check(mnist(tmp_path))
    check(fashion_mnist(str(tmp_path)))


def test_an_unpacked_file_that_kept_its_name(tmp_path: Path) -> None:
    path = write(tmp_path) / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))
    check(mnist(tmp_path))


def test_names_and_size(tmp_path: Path) -> None:
    write(tmp_path)
    assert (mnist(tmp_path).name, fashion_mnist(tmp_path).name) == ("mnist", "fashion-mnist")
    assert mnist(tmp_path).class_names[7] == "7"
    assert fashion_mnist(tmp_path).class_names[6] == "shirt"
    x, _ = next(iter(mnist(tmp_path, size=8).test.batches(2)))
    assert x.shape == torch.Size([2, 1, 8, 8])


GOOD = idx(TRAIN)
BAD = {
    "wrong magic": ("train-images-idx3-ubyte.gz", b"\0\0\x0d\3" + GOOD[4:], "begins with the bytes 0 0 8 3"),
    "images for labels": ("train-labels-idx1-ubyte.gz", GOOD, "begins with the bytes 0 0 8 1"),
    "a web page": ("t10k-images-idx3-ubyte.gz", b"<html>not found</html>", "is not an IDX file"),
    "empty": ("t10k-images-idx3-ubyte.gz", b"", "is not an IDX file"),
    "only a header's beginning": ("t10k-images-idx3-ubyte.gz", GOOD[:9], "is not an IDX file"),
    "cut short": ("train-images-idx3-ubyte.gz", GOOD[:-1], "holds 599 values, expected 20 x 6 x 5"),
    "too long": ("train-images-idx3-ubyte.gz", GOOD + b"!", "holds 601 values"),
    "gzip cut short": ("train-images-idx3-ubyte.gz", gzip.compress(GOOD)[:-20], "damaged or cut short"),
    "gzip broken": (
        "train-images-idx3-ubyte.gz",
        gzip.compress(GOOD)[:30] + bytes(99),
        "damaged or cut short|holds more than 0 values",
    ),
    "no images": ("t10k-images-idx3-ubyte.gz", idx(TEST[:0]), "holds no pixels"),
    "fewer images than labels": ("t10k-images-idx3-ubyte.gz", idx(TEST[:9]), "9 images but .* 10 labels"),
    "label of 10": ("t10k-labels-idx1-ubyte.gz", idx(TEN + 1), "holds the label 10, expected 0 to 9"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_by_name(tmp_path: Path, case: str) -> None:
    name, data, message = BAD[case]
    (write(tmp_path) / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        mnist(tmp_path)
    assert name in str(caught.value)


def test_two_shapes_are_refused(tmp_path: Path) -> None:
    (write(tmp_path) / "t10k-images-idx3-ubyte.gz").write_bytes(idx(TEST[:, :5]))
    with pytest.raises(InputError, match="6 x 5 pixels and test images of 5 x 5"):
        mnist(tmp_path)


@pytest.mark.parametrize("missing", ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    (write(tmp_path) / f"{missing}.gz").unlink()
    with pytest.raises(InputError, match=f"has no {missing}"):
        fashion_mnist(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is not there, expected a folder"):
        mnist(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file, expected a folder"):
        mnist(tmp_path / "file")
