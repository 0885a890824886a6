"""cifar10, cifar100: binary archives, packed and unpacked; channel order; what is never opened."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from residua.data import cifar10, cifar100
from residua.data.cifar import CIFAR10_CLASSES
from residua.data.task import Dataset
from residua.errors import InputError

ROWS = np.random.default_rng(3).integers(0, 256, (24, 3072), dtype=np.uint8)
ROWS[0, 0 * 1024 + 2 * 32 + 5] = 11  # red, second row down, fifth from the left
ROWS[0, 1 * 1024 + 2 * 32 + 5] = 22
ROWS[0, 2 * 1024 + 2 * 32 + 5] = 33


def files10() -> dict[str, bytes]:
    labels = np.arange(24, dtype=np.uint8)[:, None] % 10
    rows = np.hstack([labels, ROWS])
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    return {name: rows[4 * i : 4 * i + 4].tobytes() for i, name in enumerate(names)}


def files100() -> dict[str, bytes]:
    fine = np.arange(24, dtype=np.uint8)[:, None] * 4
    rows = np.hstack([fine // 5, fine, ROWS])
    return {
        "train.bin": rows[:20].tobytes(),
        "test.bin": rows[20:].tobytes(),
        "fine_label_names.txt": "\n".join(f"fine_{i}" for i in range(100)).encode() + b"\n",
        "coarse_label_names.txt": "\r\n".join(f"coarse_{i}" for i in range(20)).encode(),
    }


def write(dir: Path, files: dict[str, bytes]) -> Path:
    dir.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (dir / name).write_bytes(data)
    return dir


def pack(path: Path, files: dict[str, bytes], folder: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def pixels(data: Dataset, i: int) -> torch.Tensor:
    stream = data.train.images.stream([torch.tensor([i])], torch.device("cpu"))
    return next(iter(stream))[0]


def check10(data: Dataset) -> None:
    assert (len(data.train), len(data.test), data.shape) == (20, 4, (3, 32, 32))
    assert data.class_names == CIFAR10_CLASSES
    assert data.train.labels.tolist() == [i % 10 for i in range(20)]
    assert pixels(data, 0)[:, 2, 5].tolist() == [11, 22, 33]
    scaled = ROWS[:20].reshape(-1, 3, 32, 32) / 255
    mean, std = (getattr(scaled, what)((0, 2, 3), keepdims=True) for what in ("mean", "std"))
    x, y = next(iter(data.test.batches(4)))
    np.testing.assert_allclose(x.numpy(), (ROWS[20:].reshape(-1, 3, 32, 32) / 255 - mean) / std, atol=2e-6)
    assert y.tolist() == [0, 1, 2, 3]


def test_cifar10_unpacked_here_or_one_folder_down(tmp_path: Path) -> None:
    check10(cifar10(write(tmp_path / "here", files10())))
    write(tmp_path / "down/cifar-10-batches-bin", files10())
    check10(cifar10(str(tmp_path / "down")))


def test_cifar10_packed_is_read_without_unpacking(tmp_path: Path) -> None:
    archive = pack(tmp_path / "cifar-10-binary.tar.gz", files10(), "cifar-10-batches-bin")
    check10(cifar10(tmp_path))
    assert list(tmp_path.iterdir()) == [archive]
    assert cifar10(tmp_path, size=64).shape == (3, 64, 64)


@pytest.mark.parametrize("packed", [True, False])
def test_cifar100_fine_and_coarse(tmp_path: Path, packed: bool) -> None:
    if packed:
        pack(tmp_path / "cifar-100-binary.tar.gz", files100(), "cifar-100-binary")
    else:
        write(tmp_path / "cifar-100-binary", files100())
    fine, coarse = cifar100(tmp_path), cifar100(tmp_path, labels="coarse")
    assert (fine.classes, coarse.classes) == (100, 20)
    assert (fine.name, coarse.name) == ("cifar100", "cifar100-coarse")
    assert fine.train.labels.tolist() == [4 * i for i in range(20)]
    assert coarse.test.labels.tolist() == [4 * i // 5 for i in range(20, 24)]
    assert (fine.class_names[99], coarse.class_names[19]) == ("fine_99", "coarse_19")
    assert pixels(fine, 0)[:, 2, 5].tolist() == [11, 22, 33]


def test_cifar100_without_lists_of_names(tmp_path: Path) -> None:
    files = {name: data for name, data in files100().items() if name.endswith(".bin")}
    assert cifar100(write(tmp_path, files)).class_names == ()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("data_batch_3.bin", lambda data: data[:-1], "has 12291 bytes, expected one or more rows of 3073"),
        ("test_batch.bin", lambda data: b"", "has 0 bytes"),
        ("data_batch_5.bin", lambda data: b"\x0a" + data[1:], "holds the label 10, expected 0 to 9"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_bad_rows_are_refused_by_name(
    tmp_path: Path, packed: bool, name: str, change: Callable[[bytes], bytes], message: str
) -> None:
    files = files10()
    files[name] = change(files[name])
    if packed:
        pack(tmp_path / "cifar-10-binary.tar.gz", files, "cifar-10-batches-bin")
    else:
        write(tmp_path, files)
    with pytest.raises(InputError, match=message) as caught:
        cifar10(tmp_path)
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = files10()
    del files["data_batch_4.bin"]
    pack(write(tmp_path / "packed", {}) / "cifar-10-binary.tar.gz", files, "cifar-10-batches-bin")
    with pytest.raises(InputError, match=r"has no cifar-10-batches-bin/data_batch_4.bin"):
        cifar10(tmp_path / "packed")
    with pytest.raises(InputError, match=r"data_batch_4.bin does not exist"):
        cifar10(write(tmp_path / "unpacked", files))


def test_members_elsewhere_or_no_files_are_not_taken(tmp_path: Path) -> None:
    pack(tmp_path / "cifar-10-binary.tar.gz", files10(), "../cifar-10-batches-bin")
    with pytest.raises(InputError, match=r"has no cifar-10-batches-bin/data_batch_1.bin"):
        cifar10(tmp_path)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(InputError, match=r"has no cifar-10-batches-bin/data_batch_1.bin"):
        cifar10(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "cut at the end", "flipped", "not gzip", "empty", "not tar"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    archive = pack(tmp_path / "cifar-10-binary.tar.gz", files10(), "cifar-10-batches-bin")
    data = archive.read_bytes()
    # The pixels are noise, so gzip stores most of them as they are: a flip inside breaks only its checksum.
    middle = len(data) // 2
    archive.write_bytes(
        {
            "cut": data[:middle],
            "cut at the end": data[:-4],
            "flipped": data[:middle] + bytes((data[middle] ^ 1,)) + data[middle + 1 :],
            "not gzip": b"<html>" * 999,
            "empty": b"",
            "not tar": gzip.compress(b"text" * 999),
        }[damage]
    )
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz is damaged or cut short"):
        cifar10(tmp_path)


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (cifar10, "train.parquet", "open it as parquet:"),
        (cifar10, "plain_text/train-00000-of-00001.parquet", "open it as parquet:"),
        (cifar10, "cifar-10-python.tar.gz", "pickle files could run any code.*cifar-10-binary.tar.gz"),
        (cifar10, "cifar-10-batches-py/data_batch_1", "never opened"),
        (cifar10, "data_batch_1", "never opened"),
        (cifar100, "cifar-100-python/train", "pickle.*cifar-100-binary.tar.gz"),
        (cifar100, "meta", "never opened"),
        (cifar100, "readme.html", "has neither cifar-100-binary.tar.gz nor train.bin"),
    ],
)
def test_other_versions_are_recognised(
    tmp_path: Path, load: Callable[[Path], Dataset], name: str, message: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_cifar100_refuses_other_labels_and_wrong_lists(tmp_path: Path) -> None:
    files = files100() | {"fine_label_names.txt": b"one two"}
    write(tmp_path, files)
    with pytest.raises(InputError, match="labels is 'medium', expected fine"):
        cifar100(tmp_path, labels="medium")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"fine_label_names.txt has 2 names, expected 100"):
        cifar100(tmp_path)
