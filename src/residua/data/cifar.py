"""cifar10, cifar100: the official binary archives, packed or unpacked."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

import numpy as np
import numpy.typing as npt

from residua.data.checks import Location, content, folder
from residua.data.from_arrays import Scale, arrays
from residua.data.task import Dataset
from residua.errors import InputError
from residua.files import open_regular, reading
from residua.limits import Clock, Unpacking, check_unpacked

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

_PIXELS = 3 * 32 * 32
_MOST_MEMBERS = 1000  # of an archive that has eight
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)  # not those with holes, which are as large as they like


@dataclass(frozen=True)
class _Version:
    """The names that one of the two data sets goes by."""

    title: str
    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: tuple[str, ...]  # files with class names, which may be missing
    pickled: tuple[str, ...]  # what betrays the version made for Python


_CIFAR10 = _Version(
    title="CIFAR-10",
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    test=("test_batch.bin",),
    names=(),
    pickled=("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1", "batches.meta"),
)
_CIFAR100 = _Version(
    title="CIFAR-100",
    archive="cifar-100-binary.tar.gz",
    folder="cifar-100-binary",
    train=("train.bin",),
    test=("test.bin",),
    names=("fine_label_names.txt", "coarse_label_names.txt"),
    pickled=("cifar-100-python.tar.gz", "cifar-100-python", "meta"),
)
_Files = dict[str, tuple[str, bytes]]  # file name -> where it was found, what it holds


def cifar10(dir: Location, *, size: int | None = None, mean: Scale = None, std: Scale = None) -> Dataset:
    """CIFAR-10 from its binary archive.

    Args:
        dir: The folder of the archive, or of its unpacked files.
        size: Side in pixels that images are resized to, per batch.
        mean: Mean of each channel, white being 1; by default that of the training pixels.
        std: Standard deviation of each channel, likewise.
    """
    files = _open(folder(dir), _CIFAR10)
    train, labels = _rows(files, _CIFAR10.train, label_bytes=1, label=0, classes=10)
    test, answers = _rows(files, _CIFAR10.test, label_bytes=1, label=0, classes=10)
    return arrays(
        train, labels, test, answers,
        class_names=CIFAR10_CLASSES, name="cifar10", size=size, mean=mean, std=std,
    )  # fmt: skip


def cifar100(
    dir: Location,
    labels: Literal["fine", "coarse"] = "fine",
    *,
    size: int | None = None,
    mean: Scale = None,
    std: Scale = None,
) -> Dataset:
    """CIFAR-100 from its binary archive. The classes have names where the archive's lists of names are there.

    Args:
        dir: The folder of the archive, or of its unpacked files.
        labels: The 100 fine classes, or the 20 coarse ones they fall into.
        size: Side in pixels that images are resized to, per batch.
        mean: Mean of each channel, white being 1; by default that of the training pixels.
        std: Standard deviation of each channel, likewise.
    """
    if labels not in ("fine", "coarse"):
        raise InputError(f"labels is {labels!r}, expected fine (100 classes) or coarse (20 classes)")
    fine = labels == "fine"
    classes = 100 if fine else 20
    files = _open(folder(dir), _CIFAR100)
    train, given = _rows(files, _CIFAR100.train, label_bytes=2, label=int(fine), classes=classes)
    test, answers = _rows(files, _CIFAR100.test, label_bytes=2, label=int(fine), classes=classes)
    names = _class_names(files, f"{labels}_label_names.txt", classes)
    name = "cifar100" if fine else "cifar100-coarse"
    return arrays(
        train, given, test, answers,
        classes=classes, class_names=names, name=name, size=size, mean=mean, std=std,
    )  # fmt: skip


def _open(dir: Path, version: _Version) -> _Files:
    for place in (dir, dir / version.folder):
        if any((place / name).is_file() for name in version.train):
            wanted = version.train + version.test
            there = tuple(name for name in version.names if (place / name).is_file())
            return {name: (str(place / name), content(place / name)) for name in wanted + there}
    if (dir / version.archive).is_file():
        return _unpack(dir / version.archive, version)
    if any(dir.glob("*.parquet")) or any(dir.glob("*/*.parquet")):
        raise InputError(
            f"{dir} holds parquet files, expected {version.title}'s binary version; open it as parquet:{dir}"
        )
    if any((dir / name).exists() for name in version.pickled):
        raise InputError(
            f"{dir} holds {version.title}'s Python version, whose pickle files could run any code and are "
            f"never opened; put the binary version, {version.archive}, there"
        )
    raise InputError(f"{dir} has neither {version.archive} nor {version.train[0]}; put the archive there")


def _unpack(archive: Path, version: _Version) -> _Files:
    """The files of the archive that we know by name, read into memory; nothing else is looked at."""
    wanted = {PurePosixPath(version.folder, name): name for name in version.train + version.test + version.names}
    found: _Files = {}
    try:
        with open_regular(archive) as packed, reading(archive), gzip.GzipFile(fileobj=packed) as unpacked:
            stream = Unpacking(cast(IO[bytes], unpacked), archive, packed.seek(0, 2))
            packed.seek(0)
            clock = Clock(archive, stream.on_disk)
            # As a stream, which only ever goes forward, whatever sizes the members claim.
            with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as tar:
                for count, member in enumerate(tar):
                    clock.check()
                    if count >= _MOST_MEMBERS:
                        raise tarfile.TarError("far more members than the data set has")
                    name = wanted.get(PurePosixPath(member.name))
                    file = tar.extractfile(member) if name and member.type in _PLAIN else None
                    if name and file:
                        check_unpacked(archive, member.size, stream.on_disk)
                        found[name] = (f"{archive} ({member.name})", file.read())
            while stream.read(1 << 20):
                pass  # gzip's checksum stands at the very end
    except InputError:
        raise
    except (OSError, EOFError, ValueError, OverflowError, tarfile.TarError, zlib.error) as error:
        raise InputError(f"{archive} is damaged or cut short, expected a whole .tar.gz; get it again") from error
    for name in version.train + version.test:
        if name not in found:
            raise InputError(
                f"{archive} has no {version.folder}/{name}, expected those of {version.title}; get it again"
            )
    return found


def _rows(
    files: _Files, names: tuple[str, ...], *, label_bytes: int, label: int, classes: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images (N, 3, 32, 32) and labels: each row is its labels, then all red, green, blue bytes."""
    parts = []
    width = label_bytes + _PIXELS
    for name in names:
        where, data = files[name]
        if not data or len(data) % width:
            raise InputError(f"{where} has {len(data)} bytes, expected one or more rows of {width}; get it again")
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        if rows[:, label].max() >= classes:
            raise InputError(
                f"{where} holds the label {rows[:, label].max()}, expected 0 to {classes - 1}; get it again"
            )
        parts.append(rows)
    table = np.concatenate(parts)
    return table[:, label_bytes:].reshape(-1, 3, 32, 32), table[:, label]


def _class_names(files: _Files, name: str, classes: int) -> tuple[str, ...]:
    if name not in files:
        return ()
    where, data = files[name]
    names = tuple(data.decode("utf-8", errors="replace").split())
    if len(names) != classes:
        raise InputError(f"{where} has {len(names)} names, expected {classes}; get it again or remove it")
    return names
