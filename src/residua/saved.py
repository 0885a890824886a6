"""What strangers save of their models: outputs or features in an .npz file.

The layout is in docs/saved.md. A file is a zip archive of arrays with headers; every header is
checked before anything is read, so that a small file cannot ask for much memory, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from residua.classifier import probabilities
from residua.device import memory_budget
from residua.errors import InputError

SPLITS = ("forget", "retain", "test", "forget_test")
OUTPUTS = r"(forget|retain|test|forget_test)_(logits|labels)"
FEATURES = r"block[1-9][0-9]{0,3}|labels"


@dataclass(frozen=True, eq=False)
class SavedOutputs:
    """Logits (N, classes) of each split that was saved, in float32, and its labels where given."""

    logits: Mapping[str, Tensor]
    labels: Mapping[str, Tensor]

    @property
    def classes(self) -> int:
        return self.logits["forget"].shape[1]

    def digest(self) -> str:
        """SHA-256 of all values under their names, however the file was packed."""
        labels = {f"{split} labels": of for split, of in self.labels.items()}
        return _digest({f"{split} logits": of for split, of in self.logits.items()} | labels)


@dataclass(frozen=True, eq=False)
class SavedFeatures:
    """Features (N, ...) of each block that was saved, in float32, and one label a sample."""

    blocks: Mapping[int, Tensor]
    labels: Tensor

    def digest(self) -> str:
        """SHA-256 of all values under their names, however the file was packed."""
        return _digest({f"block {block}": z for block, z in self.blocks.items()} | {"labels": self.labels})


@dataclass(frozen=True, eq=False)
class Saved:
    """What was saved of one model: outputs, features or both."""

    outputs: SavedOutputs | None = None
    features: SavedFeatures | None = None

    def digests(self) -> dict[str, str]:
        """A hash of each kind that is there."""
        kinds = {"outputs": self.outputs, "features": self.features}
        return {name: kind.digest() for name, kind in kinds.items() if kind is not None}


def read_outputs(path: str | Path, *, budget: int | None = None) -> SavedOutputs:
    """The outputs in this file: `<split>_logits`, and `<split>_labels` where they are known.

    More than `budget` bytes (a quarter of the memory) are refused.
    """
    return _outputs(path, _arrays(Path(path), OUTPUTS, "forget_logits", budget))


def _outputs(path: str | Path, found: dict[str, np.ndarray]) -> SavedOutputs:
    logits = {
        split: _floats(path, f"{split}_logits", found) for split in SPLITS if f"{split}_logits" in found
    }
    labels = {
        split: _wholes(path, f"{split}_labels", found) for split in SPLITS if f"{split}_labels" in found
    }
    if "forget" not in logits:
        raise InputError(f"{path} has no forget_logits; save the outputs of what was to be forgotten")
    classes = logits["forget"].shape[1] if logits["forget"].ndim == 2 else 0
    for split, values in logits.items():
        if values.ndim != 2 or values.shape[1] != classes or classes < 2:
            raise InputError(
                f"{path} has {split}_logits of {_by(values)}, expected N x {max(classes, 2)}, a column for each class; "
                "save one row of logits a sample"
            )
        if probabilities(values):
            raise InputError(
                f"{path} has probabilities in {split}_logits, expected logits; save what comes before the softmax, or the "
                "logarithms"
            )
    for split, values in labels.items():
        if split not in logits:
            raise InputError(f"{path} has {split}_labels but no {split}_logits; save both or neither")
        _same_length(path, f"{split}_labels", values, f"{split}_logits", logits[split])
        if int(values.max()) >= classes:
            raise InputError(
                f"{path} has the label {int(values.max())} in {split}_labels, expected 0 to {classes - 1}; "
                "correct the labels"
            )
    return SavedOutputs(logits, labels)


def read_features(path: str | Path, *, budget: int | None = None) -> SavedFeatures:
    """The features in this file: `block<l>` for each saved block, and `labels`.

    Labels are 1 for what was to be forgotten and 0 for the rest, or the classes where single samples
    were to be forgotten. More than `budget` bytes (a quarter of the memory) are refused.
    """
    return _features(path, _arrays(Path(path), FEATURES, "block1 and labels", budget))


def read_saved(*paths: str | Path, budget: int | None = None) -> Saved:
    """All that was saved of one model, in one file or several: outputs and features are told by their names."""
    kinds: dict[str, tuple[str, dict[str, np.ndarray]]] = {}
    for path in paths:
        found = _arrays(Path(path), f"{OUTPUTS}|{FEATURES}", "forget_logits, block1 and labels", budget)
        outputs = {name: values for name, values in found.items() if re.fullmatch(OUTPUTS, name)}
        features = {name: values for name, values in found.items() if name not in outputs}
        if not found:
            raise InputError(f"{path} is empty; save forget_logits, or block1 and labels")
        for kind, arrays in (("outputs", outputs), ("features", features)):
            if arrays and kind in kinds:
                raise InputError(f"{kinds[kind][0]} and {path} both hold {kind}; give one file of a kind")
            if arrays:
                kinds[kind] = (str(path), arrays)
    return Saved(
        outputs=_outputs(*kinds["outputs"]) if "outputs" in kinds else None,
        features=_features(*kinds["features"]) if "features" in kinds else None,
    )


def _features(path: str | Path, found: dict[str, np.ndarray]) -> SavedFeatures:
    if "labels" not in found:
        raise InputError(
            f"{path} has no labels; save one whole number a sample, 1 where it was to be forgotten"
        )
    labels = _wholes(path, "labels", found)
    names = sorted((name for name in found if name != "labels"), key=lambda name: int(name[5:]))
    if not names:
        raise InputError(f"{path} has no features; save those of block 5 as block5")
    blocks = {}
    for name in names:
        values = _floats(path, name, found)
        if values.ndim < 2:
            raise InputError(
                f"{path} has {name} of {_by(values)}, expected N x ...; save one row of features a sample"
            )
        _same_length(path, "labels", labels, name, values)
        blocks[int(name[5:])] = values
    if len(labels.unique()) < 2:
        raise InputError(
            f"{path} has one label only, expected two or more; save forgotten and retained samples"
        )
    return SavedFeatures(blocks, labels)


def _digest(arrays: Mapping[str, Tensor]) -> str:
    sha = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        sha.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
        sha.update(np.ascontiguousarray(values.numpy()).tobytes())
    return sha.hexdigest()


def _arrays(path: Path, allowed: str, example: str, budget: int | None) -> dict[str, np.ndarray]:
    """The arrays of the file by name, once all headers have been found good."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; give the path of an .npz file")
    try:
        with zipfile.ZipFile(path) as archive:
            members = {}
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if not re.fullmatch(allowed, name) or name == member.filename or name in members:
                    again = "twice " if name in members else ""
                    raise InputError(
                        f"{path} holds {again}{member.filename!r}, expected arrays like {example}; leave it out"
                    )
                members[name] = member
            total = sum(_size(path, name, archive, member) for name, member in members.items())
            most = memory_budget() if budget is None else budget
            if total > most:
                raise InputError(
                    f"{path} would unpack into {total} bytes, expected at most {most}; save fewer samples"
                )
            return {name: _array(archive, member) for name, member in members.items()}
    except InputError:
        raise
    except (*DAMAGE, OSError) as error:
        raise InputError(
            f"{path} is not a readable .npz file ({_short(error)}); write it with numpy.savez"
        ) from error


# What zipfile, zlib and numpy raise over damaged or hostile bytes.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, ValueError, TypeError, KeyError, EOFError, NotImplementedError, RuntimeError,
    SyntaxError, OverflowError, MemoryError, IndexError, AttributeError,
)  # fmt: skip


def _size(path: Path, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    size, dtype = unpacked(path, name, archive, member)
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise InputError(f"{path} holds {name} as {dtype}, expected numbers; save a plain array")
    return size


def unpacked(
    path: Path, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[int, np.dtype]:
    """Bytes and type of the array by its own header, which must agree with the archive's directory."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(
            f"{path} packs {name} in an unusual way; write it with numpy.savez or savez_compressed"
        )
    with archive.open(member) as file:
        shape, dtype = _header(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise InputError(f"{path} holds {name} as pickled objects, expected numbers; save a plain array")
        if file.tell() + size != member.file_size:
            raise InputError(
                f"{path} says that {name} has {size} bytes, which it does not have; write it again"
            )
    return size, dtype


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    # Version 1 headers are at most 64 KiB long; numpy writes no other for plain arrays.
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array with an unusual header")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if any(side < 0 for side in shape):
        raise ValueError("an array with a negative side")
    return shape, dtype


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        found = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # the checksum is looked at when the end is reached
    return found


def _floats(path: str | Path, name: str, found: dict[str, np.ndarray]) -> Tensor:
    values = found[name]
    if values.dtype.kind != "f":
        raise InputError(
            f"{path} holds {name} as {values.dtype}, expected floating-point numbers; convert them"
        )
    if not values.size:
        raise InputError(
            f"{path} has {name} of {_by(values)}, expected at least one sample; leave it out or fill it"
        )
    with np.errstate(over="ignore"):
        values = values.astype(np.float32, order="C")
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds NaN or infinite values in {name}; save finite numbers")
    return torch.from_numpy(values)


def _wholes(path: str | Path, name: str, found: dict[str, np.ndarray]) -> Tensor:
    values = found[name]
    if values.ndim != 1 or values.dtype.kind not in "iub" or not values.size:
        raise InputError(
            f"{path} holds {name} as {values.dtype} of {_by(values)}, expected one whole number a sample; save labels"
        )
    if int(values.min()) < 0 or int(values.max()) >= 1 << 31:
        raise InputError(
            f"{path} holds labels from {values.min()} to {values.max()} in {name}, expected 0 or more"
        )
    return torch.from_numpy(values.astype(np.int64))


def _same_length(path: str | Path, name: str, values: Tensor, other: str, others: Tensor) -> None:
    if len(values) != len(others):
        raise InputError(
            f"{path} has {len(values)} {name} for {len(others)} rows of {other}; give one for each"
        )


def _by(values: np.ndarray | Tensor) -> str:
    return " x ".join(map(str, values.shape)) or "a single number"


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
