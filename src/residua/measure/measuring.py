"""measured and recorded: the one way from a model, or from readings of it, to a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from residua.data.task import ForgetTask
from residua.device import exact_float32
from residua.errors import InputError
from residua.models.classifier import Classifier, weights_digest
from residua.progress import about
from residua.progress import tell as announce
from residua.readings import Reading
from residua.record import MethodFacts, Record, Setting
from residua.record import software as versions


class _Measure(Protocol):
    @property
    def label(self) -> str: ...

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading: ...


class Taken(NamedTuple):
    """One reading with the measure that made it and the seconds that it took, or the reason why there is none."""

    measure: object
    reading: Reading | None
    seconds: float = 0.0
    refused: str = ""


def measured(
    model: Classifier,
    task: ForgetTask,
    measures: Sequence[_Measure],
    *,
    name: str = "model",
    method: Mapping[str, Any] | None = None,
    setting: Mapping[str, Any] | None = None,
    into: Record | None = None,
    tell: Callable[[str, float], None] = lambda label, seconds: None,
    **facts: Any,
) -> Record:
    """A record of the measures' readings of this model, or of their refusals.

    A measure that refuses (`InputError`) leaves its reason in `record.refused`, and the others go on; whoever needs
    a reading decides what its absence means.

    Args:
        model: The model.
        task: The forgetting task.
        measures: The measures, called in this order.
        name: Name of the record.
        method: Facts about the method that made the model: label, kind, fields, ...
        setting: Facts that the model and the task do not know.
        into: Record that the readings are added to, instead of a new one.
        tell: Called with the label of each measure and the seconds that it took.
        facts: Further arguments of `recorded`: seeds, seconds, command, arrays.
    """
    record = into
    if record is None:
        maker, known = {"label": name, **(method or {})}, {"network": model.architecture, **(setting or {})}
        if "weights" not in maker:
            maker["weights"] = weights_digest(model)
        if "task" not in known:  # the manifest hashes all images: callers that measure many models hand it in
            known["task"] = task.manifest()
        record = recorded(name, (), method=MethodFacts(**maker), setting=Setting(**known), **facts)
    for measure in measures:
        start, reading, why = time.perf_counter(), None, ""
        with about(record.name), exact_float32(torch.float32, model.device):
            announce(measure.label)
            try:
                reading = measure(model, task)
            except InputError as error:
                why = str(error)
        spent = time.perf_counter() - start
        record = record.with_reading(measure, reading, spent, why)
        tell(measure.label, spent)
    return record


def recorded(
    name: str,
    taken: Iterable[Taken],
    *,
    method: MethodFacts,
    setting: Setting,
    seeds: Mapping[str, int] | None = None,
    seconds: Mapping[str, float] | None = None,
    command: str = "",
    arrays: Mapping[str, np.ndarray] | None = None,
    software: Mapping[str, str] | None = None,
) -> Record:
    """A record of readings that were taken before, as those of a study are.

    Args:
        name: Name of the record.
        taken: The readings with their measures.
        method: Facts about the method and its model.
        setting: Data, network and scale.
        seeds: Seeds by name.
        seconds: Times beside those of the measures.
        command: Command line that made the record.
        arrays: Arrays beside those of the readings.
        software: Versions under which the readings were taken; by default, those that run now.
    """
    record = Record(
        name=name,
        setting=setting,
        method=method,
        seeds=dict(seeds or {}),
        readings={},
        seconds=dict(seconds or {}),
        command=command,
        arrays=dict(arrays or {}),
        software=versions() if software is None else dict(software),
    )
    for each in taken:
        record = record.with_reading(*each)
    return record
