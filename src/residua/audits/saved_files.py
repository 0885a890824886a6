"""What third parties save of their models: outputs or features in an .npz file.

The layout is in docs/saved.md. `npz.py` checks every header before anything is read, so that a small file cannot ask
for much memory, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from residua.audits.saved_sampling import WIDEST, chosen_rows
from residua.errors import InputError
from residua.limits import check, check_unpacked
from residua.models.classifier import probabilities
from residua.npz import Header, read_npz

SPLITS = ("forget", "retain", "test", "forget_test")
OUTPUTS = r"(forget|retain|test|forget_test)_(logits|labels)"
SCORES = 10  # of each sample and label that the estimate holds at once, in float64
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
        labels = {f"{split} labels": values for split, values in self.labels.items()}
        return _digest({f"{split} logits": values for split, values in self.logits.items()} | labels)


@dataclass(frozen=True, eq=False)
class SavedFeatures:
    """Features (N, ...) of each block that was saved, in float32, and one label per sample.

    `rows` are the samples whose features are still held, where `sampled` let go of the others; `labels` are of all.
    """

    blocks: Mapping[int, Tensor]
    labels: Tensor
    rows: Tensor | None = None
    sha256: str = ""

    def sampled(self) -> SavedFeatures:
        """Only those features that an audit reads, so that models can be read one after another in little memory."""
        if self.rows is not None:
            return self
        rows = chosen_rows(self.labels, max(math.prod(z.shape[1:]) for z in self.blocks.values()))
        some = len(rows) < len(self.labels)
        blocks = {block: z[rows] if some else z for block, z in self.blocks.items()}
        return SavedFeatures(blocks, self.labels, rows, self.digest())

    def digest(self) -> str:
        """SHA-256 of all values under their names, however the file was packed."""
        if self.sha256:
            return self.sha256
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

    def sampled(self) -> Saved:
        """With only those features that an audit reads."""
        return Saved(self.outputs, None if self.features is None else self.features.sampled())


def read_outputs(path: str | Path, *, budget: int | None = None) -> SavedOutputs:
    """The outputs in this file: `<split>_logits`, and `<split>_labels` where they are known.

    More than `budget` bytes, without it more than the limits allow, are refused.
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
                "save one row of logits per sample"
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
    were to be forgotten. More than `budget` bytes, without it more than the limits allow, are refused.
    """
    return _features(path, _arrays(Path(path), FEATURES, "block1 and labels", budget))


def read_saved(*paths: str | Path, budget: int | None = None) -> Saved:
    """All that was saved of one model, in one file or several: outputs and features are told apart by their names."""
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
            f"{path} has no labels; save one whole number per sample, 1 where it was to be forgotten"
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
                f"{path} has {name} of {_by(values)}, expected N x ...; save one row of features per sample"
            )
        wide = math.prod(values.shape[1:])
        if wide > WIDEST:
            raise InputError(
                f"{path} has {name} of {_by(values)}, {wide} numbers for each sample, expected at most {WIDEST}; save the "
                "mean over height and width of a map, or the first principal components of a vector"
            )
        _same_length(path, "labels", labels, name, values)
        blocks[int(name[5:])] = values
    kinds = len(labels.unique())
    if kinds < 2:
        raise InputError(
            f"{path} has one label only, expected two or more; save forgotten and retained samples"
        )
    # What estimating needs: a score for each sample and label, of several critics.
    check_unpacked(path, SCORES * 8 * len(labels) * kinds, Path(path).stat().st_size)
    return SavedFeatures(blocks, labels)


def _digest(arrays: Mapping[str, Tensor]) -> str:
    sha = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        sha.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
        sha.update(np.ascontiguousarray(values.numpy()).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def _arrays(path: Path, allowed: str, example: str, budget: int | None) -> dict[str, np.ndarray]:
    """The arrays of the file by name, once all headers have been found good."""

    def name_of(member: zipfile.ZipInfo) -> str:
        name = member.filename.removesuffix(".npy")
        if not re.fullmatch(allowed, name) or name == member.filename:
            raise InputError(
                f"{path} holds {member.filename!r}, expected arrays like {example}; leave it out"
            )
        return name

    def cost(name: str, header: Header) -> int:
        if header.dtype.kind not in "fiub" or header.dtype.itemsize > 8:
            raise InputError(f"{path} holds {name} as {header.dtype}, expected numbers; save a plain array")
        check(f"{name} of {path}", "rows", header.shape[0] if header.shape else 1)
        # Beside the array itself stands what is made of it: float32, or int64 for labels.
        return header.size + math.prod(header.shape) * (4 if header.dtype.kind == "f" else 8)

    return read_npz(path, name_of, cost=cost, budget=budget)


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
        values = values.astype(np.float32, order="C", copy=False)
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds NaN or infinite values in {name}; save finite numbers")
    return torch.from_numpy(values)


def _wholes(path: str | Path, name: str, found: dict[str, np.ndarray]) -> Tensor:
    values = found[name]
    if values.ndim != 1 or values.dtype.kind not in "iub" or not values.size:
        raise InputError(
            f"{path} holds {name} as {values.dtype} of {_by(values)}, expected one whole number per sample; save labels"
        )
    if int(values.min()) < 0:
        raise InputError(
            f"{path} holds labels from {values.min()} to {values.max()} in {name}, expected 0 or more; correct them"
        )
    check(f"{name} of {path}", "classes", int(values.max()) + 1)
    return torch.from_numpy(values.astype(np.int64))


def _same_length(path: str | Path, name: str, values: Tensor, other: str, others: Tensor) -> None:
    if len(values) != len(others):
        raise InputError(
            f"{path} has {len(values)} {name} for {len(others)} rows of {other}; give one for each"
        )


def _by(values: np.ndarray | Tensor) -> str:
    return " x ".join(map(str, values.shape)) or "a single number"
