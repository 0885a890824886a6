"""Saved outputs or features of third parties' models, in .npz files, and their readings.

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
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from residua.errors import InputError
from residua.limits import check, check_unpacked
from residua.measure.accuracy import ASKED, accuracies
from residua.measure.information.estimate import Information, mutual_information
from residua.measure.measuring import Taken, recorded
from residua.models.classifier import probabilities
from residua.npz import Header, read_npz
from residua.parallel import each
from residua.progress import tell
from residua.readings import Curve, Reading
from residua.record import MethodFacts, Record, Setting, SplitFacts, TaskFacts

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
    """Saved parts of one model: outputs, features or both."""

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
    logits = {split: _floats(path, f"{split}_logits", found) for split in SPLITS if f"{split}_logits" in found}
    labels = {split: _wholes(path, f"{split}_labels", found) for split in SPLITS if f"{split}_labels" in found}
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
        raise InputError(f"{path} has no labels; save one whole number per sample, 1 where it was to be forgotten")
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
        raise InputError(f"{path} has one label only, expected two or more; save forgotten and retained samples")
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
            raise InputError(f"{path} holds {member.filename!r}, expected arrays like {example}; leave it out")
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
        raise InputError(f"{path} holds {name} as {values.dtype}, expected floating-point numbers; convert them")
    if not values.size:
        raise InputError(f"{path} has {name} of {_by(values)}, expected at least one sample; leave it out or fill it")
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
        raise InputError(f"{path} has {len(values)} {name} for {len(others)} rows of {other}; give one for each")


def _by(values: np.ndarray | Tensor) -> str:
    return " x ".join(map(str, values.shape)) or "a single number"


# Critics take about samples x features^2 steps. So many numbers of a block are read at most: 20,000 samples of 512
# features, which take one core about a minute (benchmarks/saved_features.py).
MOST = 20_000 * 512
FEWEST = 5_000
# Features of a sample: a covariance of more has more entries than 5,000 samples can tell.
WIDEST = 4096


def chosen_rows(labels: Tensor, widest: int) -> Tensor:
    """The samples that are read: all, or evenly spaced ones of each label where they are more than the estimator takes.

    The same for every model, because it depends on nothing but the labels and the width. A label keeps its fraction, but
    no less than 100 samples.
    """
    most = max(FEWEST, MOST // widest)
    if len(labels) <= most:
        return torch.arange(len(labels))
    kept = []
    for label in labels.unique():
        places = (labels == label).nonzero()[:, 0]
        count = min(len(places), max(100, round(most * len(places) / len(labels))))
        kept.append(places[torch.linspace(0, len(places) - 1, count).long()])
    return torch.cat(kept).sort().values


Readings = dict[str, dict[str, Reading]]

FOLDS, SEED = 4, 0


def records_of_saved(
    models: Mapping[str, Saved], *, seed: int = 0, command: str = "", files: Mapping[str, str] | None = None
) -> dict[str, Record]:
    """A record of each model. What some of them lack is compared for none of them."""
    outputs_of = {role: model.outputs for role, model in models.items() if model.outputs is not None}
    held = {role: model.features for role, model in models.items() if model.features is not None}
    for kind, saved in (("outputs", outputs_of), ("features", held)):
        if saved and "unlearned" not in saved:
            raise InputError(
                f"{kind} were saved of {' and '.join(saved)}, but not of the unlearned model; save them of all models"
            )
    if not outputs_of and not held:
        raise InputError("neither outputs nor features were saved of the models; save one of them")
    labels = _labels(outputs_of)  # before critics are fitted
    read: Readings = {role: {} for role in models}
    sizes: dict[str, int] = {}
    if held:
        _check_features(held)
        sizes = {"forget": _forgotten(held["unlearned"].labels)}
        for role, curve in _curves(held).items():
            read[role]["information"] = curve
    if outputs_of:
        sizes = {split: len(z) for split, z in outputs_of["unlearned"].logits.items()}
        for role, outputs in outputs_of.items():
            read[role] |= _readings(outputs, labels)
    task = TaskFacts(
        splits={split: SplitFacts(n=n) for split, n in sizes.items()}, scenario=_scenario(labels, held.get("unlearned"))
    )
    return {
        role: recorded(
            role,
            [Taken(FromSaved(label), reading) for label, reading in readings.items()],
            method=MethodFacts(label=role.capitalize(), saved=models[role].digests(), file=(files or {}).get(role)),
            setting=Setting(task=task),
            seeds={"audit": seed},
            command=command,
        )
        for role, readings in read.items()
    }


@dataclass(frozen=True)
class FromSaved:
    """Stand-in for the measure, in the record of a reading that was computed from saved files."""

    label: str


def _forgotten(labels: Tensor) -> int:
    """Number of samples to be forgotten: all where labels are classes, else those with the label 1."""
    return len(labels) if int(labels.max()) > 1 else int(labels.sum())


def _scenario(labels: Mapping[str, Tensor], features: SavedFeatures | None) -> Literal["class", "random"] | None:
    """The kind of forgetting, as far as the labels show it: whole classes, if no retained sample has the label of a forgotten one."""
    if "forget" in labels and "retain" in labels:
        return "random" if bool(torch.isin(labels["retain"], labels["forget"]).any()) else "class"
    if features is not None:
        return "random" if int(features.labels.max()) > 1 else "class"
    return None


def _labels(models: Mapping[str, SavedOutputs]) -> dict[str, Tensor]:
    """The labels of each split, which may come from any of the files; all must be of the same samples."""
    labels: dict[str, Tensor] = {}
    for role, model in models.items():
        for split, found in model.labels.items():
            if not labels.setdefault(split, found).equal(found):
                raise InputError(
                    f"saved outputs cannot be compared: {role} has other {split}_labels; save the same samples"
                )
    first: dict[str, Tensor] = {}
    for role, model in models.items():
        for split, found in model.logits.items():
            if found.shape != first.setdefault(split, found).shape:
                raise InputError(
                    f"saved outputs cannot be compared: {role} has {split}_logits of another shape; "
                    "save the same samples"
                )
    return labels


def _readings(model: SavedOutputs, labels: Mapping[str, Tensor]) -> dict[str, Reading]:
    """Accuracies, and log-probabilities of the forget set."""
    correct = {
        split: float((model.logits[split].argmax(dim=1) == labels[split]).double().mean())
        for split in ASKED.values()
        if split in model.logits and split in labels
    }
    notes = {
        name: f"{split}_logits or {split}_labels were not saved"
        for name, split in ASKED.items()
        if split not in correct
    }
    log_p = F.log_softmax(model.logits["forget"].double(), dim=1)
    entropy = {"entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean())}
    return {
        "accuracy": Reading(accuracies(correct), notes=notes),
        "outputs": Reading(entropy, {"log_probabilities": log_p.numpy()}),
    }


def _check_features(models: Mapping[str, SavedFeatures]) -> None:
    first = models["unlearned"]
    for role, model in models.items():
        if not model.labels.equal(first.labels) or model.blocks.keys() != first.blocks.keys():
            raise InputError(
                f"saved features cannot be compared: {role} has other labels or blocks; "
                "save the same blocks of the same samples"
            )


def _curves(models: Mapping[str, SavedFeatures]) -> dict[str, Curve]:
    """I of each saved block, with `mutual_information` in place of the network's own critics.

    Every block of every model is a piece of work of its own, with one thread, so that the numbers do not depend on
    how many run at once.
    """
    read = {role: model.sampled() for role, model in models.items()}
    pieces = [(role, block) for role, model in read.items() for block in model.blocks]

    def begin(positions: range) -> None:
        for role, block in (pieces[position] for position in positions):
            z, saved = read[role].blocks[block], len(read[role].labels)
            some = f" of {saved}" if len(z) < saved else ""
            tell(f"{role}: block {block}, {len(z)}{some} samples x {z[0].numel()}")

    estimate = partial(mutual_information, folds=FOLDS, seed=SEED)
    labels = {role: model.labels[model.rows] for role, model in read.items()}
    found = each([partial(estimate, read[role].blocks[block], labels[role]) for role, block in pieces], begin=begin)
    return {
        role: _curve(model, {block: found[pieces.index((role, block))] for block in model.blocks})
        for role, model in read.items()
    }


def _curve(model: SavedFeatures, found: Mapping[int, Information]) -> Curve:
    values: dict[str, float] = {}
    for block, own in found.items():
        values |= {
            "H": own.ceiling,
            f"I{block}": own.value,
            f"I{block}_low": own.interval[0],
            f"I{block}_high": own.interval[1],
            f"accuracy{block}": own.accuracy,
        }
    rows = torch.arange(len(model.labels)) if model.rows is None else model.rows
    labels = model.labels[rows].numpy()
    arrays = {
        "terms": np.stack([own.terms for own in found.values()])[None, None].astype(np.float16),
        "blocks": np.array(list(found)),
        "labels": labels.astype(np.int32),
        "index": rows.numpy(),
    }
    sampled = {"samples": len(rows), "saved": len(model.labels)} if len(rows) < len(model.labels) else {}
    about = {
        "measure": {"critic": "mutual_information", "folds": FOLDS, "seed": SEED} | sampled,
        "data": hashlib.sha256(labels.tobytes()).hexdigest(),
        "families": ["nonlinear"],
    }
    return Curve(values, arrays, about)
