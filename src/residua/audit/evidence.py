"""Evidence: what the measures find in each model, as records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from residua.classifier import Classifier, weights_digest
from residua.compare import reading_fields
from residua.errors import InputError
from residua.measure import (
    Accuracy,
    ClassAccuracy,
    ForgetOutputs,
    InformationCurve,
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
from residua.unlearn import Retrain

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


def read_models(
    models: Mapping[str, Classifier],
    task: ForgetTask,
    curve: InformationCurve,
    beside: Sequence[Measure],
    budget: float | None,
    start: float,
    command: str,
) -> tuple[dict[str, Record], dict[str, str]]:
    """A record of each model. A measure that one model refuses, or that comes too late, is left out of all."""
    read: dict[str, dict[str, Reading]] = {role: {} for role in models}
    seconds: dict[str, dict[str, float]] = {role: {} for role in models}
    lacking: dict[str, str] = {}
    chosen: dict[str, Measure] = {measure.label: measure for measure in (*NEEDED, curve, *beside)}
    needed = {measure.label for measure in (*NEEDED, curve)}
    for label, measure in chosen.items():
        if label not in needed and budget is not None and time.perf_counter() - start > budget:
            lacking[label] = f"the budget of {budget:g} s was used up"
            continue
        for role, model in models.items():
            before = time.perf_counter()
            try:
                read[role][label] = measure(model, task)
            except InputError as error:
                if label in needed:
                    raise
                lacking[label] = str(error)
            seconds[role][label] = time.perf_counter() - before
    setting = {"scale": "custom", "task": task.manifest()}
    settings = {label: describe(measure) for label, measure in chosen.items()}
    return {
        role: Record(
            name=role,
            setting=setting | {"network": model.architecture},
            method={"label": role.capitalize(), "weights": weights_digest(model)},
            seeds={},
            seconds=seconds[role],
            command=command,
            **reading_fields(read[role], settings),
        )
        for role, model in models.items()
    }, lacking
