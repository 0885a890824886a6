"""What can be read of models whose owner saved outputs, features or both, and not the weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from residua.audits.saved_files import Saved, SavedFeatures, SavedOutputs
from residua.errors import InputError
from residua.facts import MethodFacts, Setting, SplitFacts, TaskFacts
from residua.measure.information.estimate import Information, mutual_information
from residua.progress import tell
from residua.readings import Curve, Reading
from residua.record import Record
from residua.side_by_side import each

Readings = dict[str, dict[str, Reading]]

ASKED = {"UA": "forget", "RA": "retain", "TA": "test"}
FOLDS, SEED = 4, 0


def as_saved(model: object) -> Saved | None:
    """Outputs alone and features alone, as what was saved; None for a model."""
    if isinstance(model, SavedOutputs):
        return Saved(outputs=model)
    if isinstance(model, SavedFeatures):
        return Saved(features=model)
    return model if isinstance(model, Saved) else None


def read_saved(models: Mapping[str, Saved], *, seed: int = 0, command: str = "") -> dict[str, Record]:
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
    read: Readings = {role: {} for role in models}
    sizes: dict[str, int] = {}
    if held:
        _check_features(held)
        sizes = {"forget": _forgotten(held["unlearned"].labels)}
        for role, curve in _curves(held).items():
            read[role]["information"] = curve
    if outputs_of:
        labels = _labels(outputs_of)
        sizes = {split: len(z) for split, z in outputs_of["unlearned"].logits.items()}
        for role, outputs in outputs_of.items():
            read[role] |= _readings(outputs, labels)
    task = TaskFacts(
        splits={split: SplitFacts(n=n) for split, n in sizes.items()},
        scenario=_scenario(_labels(outputs_of) if outputs_of else {}, held.get("unlearned")),
    )
    records = {}
    for role, readings in read.items():
        record = Record(
            name=role,
            setting=Setting(task=task),
            method=MethodFacts(label=role.capitalize(), saved=models[role].digests()),
            seeds={"audit": seed},
            readings={},
            command=command,
        )
        for label, reading in readings.items():
            record = record.and_read(FromSaved(label), reading, 0.0)
        records[role] = record
    return records


@dataclass(frozen=True)
class FromSaved:
    """What stands in a record for the measure of a reading that was computed from saved files."""

    label: str


def _forgotten(labels: Tensor) -> int:
    """How many samples were to be forgotten: all where labels are classes, else those with the label 1."""
    return len(labels) if int(labels.max()) > 1 else int(labels.sum())


def _scenario(
    labels: Mapping[str, Tensor], features: SavedFeatures | None
) -> Literal["class", "random"] | None:
    """What was forgotten, as far as the labels show it: whole classes, if no retained sample has the label of a forgotten one."""
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
    values, notes = {}, {}
    for name, split in ASKED.items():
        if split in model.logits and split in labels:
            right = (model.logits[split].argmax(dim=1) == labels[split]).double().mean()
            values[name] = 1 - float(right) if name == "UA" else float(right)
        else:
            notes[name] = f"{split}_logits or {split}_labels were not saved"
    log_p = F.log_softmax(model.logits["forget"].double(), dim=1)
    entropy = {"entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean())}
    return {
        "accuracy": Reading(values, notes=notes),
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
            tell(f"{role}: block {block}, {_size(read[role], block)}")

    found = each([partial(_information, read[role], block) for role, block in pieces], begin=begin)
    return {
        role: _curve(model, {block: found[pieces.index((role, block))] for block in model.blocks})
        for role, model in read.items()
    }


def _size(model: SavedFeatures, block: int) -> str:
    z, saved = model.blocks[block], len(model.labels)
    return f"{len(z)}{f' of {saved}' if len(z) < saved else ''} samples x {z[0].numel()}"


def _information(model: SavedFeatures, block: int) -> Information:
    return mutual_information(model.blocks[block], model.labels[model.rows], folds=FOLDS, seed=SEED)


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
