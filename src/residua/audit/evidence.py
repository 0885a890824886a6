"""Evidence: what the measures find in each model, as records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from residua.classifier import Classifier, weights_digest
from residua.compare import reading_fields
from residua.errors import InputError
from residua.measure import (
    Accuracy,
    ClassAccuracy,
    ForgetOutputs,
    Measure,
    Membership,
    Probe,
    Recovery,
    Representation,
    WeightSketch,
)
from residua.reading import Reading
from residua.record import Record, describe
from residua.task import ForgetTask
from residua.training import Pretraining, seeded
from residua.unlearn import Random, Retrain

# What the verdict rests on; the others are told beside it, and are left out where time runs out.
NEEDED: tuple[Measure, ...] = (Accuracy(), ForgetOutputs(), Representation())
BESIDE: tuple[Measure, ...] = (ClassAccuracy(), Membership(), WeightSketch(), Recovery(), Probe())


def train_proxy(
    original: Classifier, task: ForgetTask, share: float, pretraining: Pretraining, seed: int
) -> Classifier:
    """Retrain on a share of each class of the retained data."""
    with seeded(seed):
        order = torch.randperm(len(task.retain))
        labels = task.retain.labels[order]
        some = [
            order[labels == c][: max(1, round(share * int((labels == c).sum())))] for c in labels.unique()
        ]
        part = task.retain.subset(torch.cat(some).sort().values)
        if len(part) < pretraining.batch:
            raise InputError(
                f"a proxy on {share:g} of the retained data has {len(part)} examples, fewer than the batch of "
                f"{pretraining.batch}; give a larger share or a smaller batch"
            )
        return Retrain(pretraining)(original, replace(task, retain=part))


def draw_random(original: Classifier, task: ForgetTask, seed: int) -> Classifier:
    """The floor where there is no reference."""
    with seeded(seed):
        return Random()(original, task)


def read_models(
    models: Mapping[str, Classifier],
    task: ForgetTask,
    needed: Sequence[Measure],
    beside: Sequence[Measure] = (),
    *,
    left: float | None = None,
    seed: int = 0,
    command: str = "",
    proxy: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Record], dict[str, str]]:
    """A record of each model, and why measures are lacking.

    One of `beside` that a model refuses, or that comes when no time is `left` (seconds), is left out of all.
    `proxy` says how the reference was trained, if it was.
    """
    start = time.perf_counter()
    read: dict[str, dict[str, Reading]] = {role: {} for role in models}
    seconds: dict[str, dict[str, float]] = {role: {} for role in models}
    lacking: dict[str, str] = {}
    chosen: dict[str, Measure] = {measure.label: measure for measure in (*needed, *beside)}
    necessary = {measure.label for measure in needed}
    for label, measure in chosen.items():
        if label not in necessary and left is not None and time.perf_counter() - start > left:
            lacking[label] = "the budget was used up"
            continue
        try:
            for role, model in models.items():
                before = time.perf_counter()
                read[role][label] = measure(model, task)
                seconds[role][label] = time.perf_counter() - before
        except InputError as error:
            if label in necessary:
                raise
            lacking[label] = str(error)
            for of in read.values():
                of.pop(label, None)
    setting = {"scale": "custom", "task": task.manifest()}
    settings = {label: describe(measure) for label, measure in chosen.items()}
    records = {}
    for role, model in models.items():
        trained = {"proxy": dict(proxy)} if proxy and role == "reference" else {}
        records[role] = Record(
            name=role,
            setting=setting | {"network": model.architecture},
            method={"label": role.capitalize(), "weights": weights_digest(model)} | trained,
            seeds={"audit": seed},
            seconds=seconds[role],
            command=command,
            **reading_fields(read[role], settings),
        )
    return records, lacking
