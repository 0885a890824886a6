"""What can be read of models whose owner saved outputs, features or both, and not the weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from residua.compare import reading_fields
from residua.curve import Curve
from residua.errors import InputError
from residua.information import Z95, mutual_information
from residua.reading import Reading
from residua.record import Record
from residua.saved import Saved, SavedFeatures, SavedOutputs

Readings = dict[str, dict[str, Reading]]

ASKED = {"UA": "forget", "RA": "retain", "TA": "test"}
FOLDS, SEED = 5, 0


def as_saved(model: object) -> Saved | None:
    """Outputs alone and features alone, as what was saved; None for a model."""
    if isinstance(model, SavedOutputs):
        return Saved(outputs=model)
    if isinstance(model, SavedFeatures):
        return Saved(features=model)
    return model if isinstance(model, Saved) else None


def read_saved(models: Mapping[str, Saved], *, seed: int = 0, command: str = "") -> dict[str, Record]:
    """A record of each model. What some of them lack is compared for none of them."""
    said = {role: model.outputs for role, model in models.items() if model.outputs is not None}
    held = {role: model.features for role, model in models.items() if model.features is not None}
    for kind, of in (("outputs", said), ("features", held)):
        if of and "unlearned" not in of:
            raise InputError(
                f"{kind} were saved of {' and '.join(of)}, but not of the unlearned model; save them of all models"
            )
    if not said and not held:
        raise InputError("neither outputs nor features were saved of the models; save one of them")
    read: Readings = {role: {} for role in models}
    sizes: dict[str, int] = {}
    if held:
        _check_features(held)
        sizes = {"forget": _forgotten(held["unlearned"].labels)}
        for role, features in held.items():
            read[role]["information"] = _curve(features)
    if said:
        labels = _labels(said)
        sizes = {split: len(z) for split, z in said["unlearned"].logits.items()}
        for role, outputs in said.items():
            read[role] |= _said(outputs, labels)
    task = {"splits": {split: {"n": n} for split, n in sizes.items()}}
    settings = {label: {"label": label, "saved": "outputs"} for label in ("accuracy", "outputs")}
    return {
        role: Record(
            name=role,
            setting={"scale": "custom", "task": task},
            method={"label": role.capitalize(), "saved": models[role].digests()},
            seeds={"audit": seed},
            command=command,
            **reading_fields(of, settings),
        )
        for role, of in read.items()
    }


def _forgotten(labels: Tensor) -> int:
    """How many samples were to be forgotten: all where labels are classes, else those with the label 1."""
    return len(labels) if int(labels.max()) > 1 else int(labels.sum())


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


def _said(model: SavedOutputs, labels: Mapping[str, Tensor]) -> dict[str, Reading]:
    """Accuracies, and what is said about the forget set."""
    values, notes = {}, {}
    for name, split in ASKED.items():
        if split in model.logits and split in labels:
            right = (model.logits[split].argmax(dim=1) == labels[split]).double().mean()
            values[name] = 1 - float(right) if name == "UA" else float(right)
        else:
            notes[name] = f"{split}_logits or {split}_labels were not saved"
    log_p = F.log_softmax(model.logits["forget"].double(), dim=1)
    said = {"entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean())}
    return {
        "accuracy": Reading(values, notes=notes),
        "outputs": Reading(said, {"log_probabilities": log_p.numpy()}),
    }


def _check_features(models: Mapping[str, SavedFeatures]) -> None:
    first = models["unlearned"]
    for role, model in models.items():
        if not model.labels.equal(first.labels) or model.blocks.keys() != first.blocks.keys():
            raise InputError(
                f"saved features cannot be compared: {role} has other labels or blocks; "
                "save the same blocks of the same samples"
            )


def _curve(model: SavedFeatures) -> Curve:
    """I of each saved block, with `mutual_information` in place of the network's own critics."""
    values: dict[str, float] = {}
    terms = []
    for block, z in model.blocks.items():
        found = mutual_information(z, model.labels, folds=FOLDS, seed=SEED)
        error = Z95 * float(found.terms.std(ddof=1)) / len(found.terms) ** 0.5
        values |= {
            "H": found.ceiling,
            f"I{block}": found.value,
            f"I{block}_low": found.value - error,
            f"I{block}_high": found.value + error,
            f"gap{block}": found.gap,
            f"accuracy{block}": found.accuracy,
        }
        terms.append(found.terms)
    labels = model.labels.numpy()
    arrays = {
        "terms": np.stack(terms)[None].astype(np.float32),
        "blocks": np.array(list(model.blocks)),
        "labels": labels.astype(np.int32),
        "index": np.arange(len(labels)),
    }
    about = {
        "measure": {"critic": "mutual_information", "folds": FOLDS, "seed": SEED},
        "data": hashlib.sha256(labels.tobytes()).hexdigest(),
    }
    return Curve(values, arrays, about)
