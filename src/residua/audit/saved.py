"""What can be read of models whose owner saved outputs or features alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from residua.compare import reading_fields
from residua.curve import Curve
from residua.errors import InputError
from residua.information import Z95, mutual_information
from residua.reading import Reading
from residua.record import Record
from residua.report.audit import Tier
from residua.saved import SavedFeatures, SavedOutputs

Readings = dict[str, dict[str, Reading]]

ASKED = {"UA": "forget", "RA": "retain", "TA": "test"}


def read_saved(models: Mapping[str, object], command: str) -> tuple[dict[str, Record], dict[str, str], Tier]:
    """A record of each model, what could not be assessed and why, and the kind of access."""
    tier: Tier
    if all(isinstance(model, SavedOutputs) for model in models.values()):
        tier, lacking = "outputs", {"white-box": "only outputs were given"}
        read, sizes = _outputs(cast(Mapping[str, SavedOutputs], models))
        lacking |= read["unlearned"]["accuracy"].notes
    elif all(isinstance(model, SavedFeatures) for model in models.values()):
        tier, lacking = "features", dict.fromkeys(("outputs", "test accuracy"), "only features were given")
        read, sizes = _features(cast(Mapping[str, SavedFeatures], models))
    else:
        raise InputError(
            "models, saved outputs and saved features cannot be mixed; give the same kind for each model"
        )
    if "reference" not in models:
        lacking["reference"] = "none was given, and no random network can be made of what was saved"
    task = {"splits": {split: {"n": n} for split, n in sizes.items()}}
    settings = {label: {"label": label, "saved": tier} for label in ("accuracy", "outputs")}
    return (
        {
            role: Record(
                name=role,
                setting={"scale": "custom", "task": task},
                method={"label": role.capitalize()},
                seeds={},
                command=command,
                **reading_fields(of, settings),
            )
            for role, of in read.items()
        },
        lacking,
        tier,
    )


def _outputs(models: Mapping[str, SavedOutputs]) -> tuple[Readings, dict[str, int]]:
    """Accuracies and what is said about the forget set; labels may come from any of the files."""
    labels: dict[str, Tensor] = {}
    for role, model in models.items():
        for split, found in model.labels.items():
            if not labels.setdefault(split, found).equal(found):
                raise InputError(
                    f"saved outputs cannot be compared: {role} has other {split}_labels; save the same samples"
                )
    first = models["unlearned"].logits
    for role, model in models.items():
        for split in first.keys() & model.logits.keys():
            if model.logits[split].shape != first[split].shape:
                raise InputError(
                    f"saved outputs cannot be compared: {role} has {split}_logits of another shape; "
                    "save the same samples"
                )
    read = {role: _said(model, labels) for role, model in models.items()}
    return read, {split: len(z) for split, z in first.items()}


def _said(model: SavedOutputs, labels: Mapping[str, Tensor]) -> dict[str, Reading]:
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


def _features(models: Mapping[str, SavedFeatures]) -> tuple[Readings, dict[str, int]]:
    first = models["unlearned"]
    for role, model in models.items():
        if not model.labels.equal(first.labels) or model.blocks.keys() != first.blocks.keys():
            raise InputError(
                f"saved features cannot be compared: {role} has other labels or blocks; "
                "save the same blocks of the same samples"
            )
    read: Readings = {role: {"information": _curve(model)} for role, model in models.items()}
    return read, {"forget": int((first.labels > 0).sum())}


def _curve(model: SavedFeatures) -> Curve:
    """I of each saved block, with `mutual_information` in place of the network's own critics."""
    values: dict[str, float] = {}
    terms = []
    for block, z in model.blocks.items():
        found = mutual_information(z, model.labels)
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
        "measure": {"critic": "mutual_information", "folds": 5, "seed": 0},
        "data": hashlib.sha256(labels.tobytes()).hexdigest(),
    }
    return Curve(values, arrays, about)
