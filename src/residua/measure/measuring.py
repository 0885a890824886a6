"""measured: the one way from a model to a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.facts import MethodFacts, Setting
from residua.models.classifier import Classifier, weights_digest
from residua.progress import about
from residua.progress import tell as announce
from residua.readings import Reading
from residua.record import Record


class _Measure(Protocol):
    @property
    def label(self) -> str: ...

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading: ...


def measured(
    model: Classifier,
    task: ForgetTask,
    measures: Sequence[_Measure],
    *,
    name: str = "model",
    method: Mapping[str, Any] | None = None,
    setting: Mapping[str, Any] | None = None,
    seeds: Mapping[str, int] | None = None,
    seconds: Mapping[str, float] | None = None,
    command: str = "",
    into: Record | None = None,
    tell: Callable[[str, float], None] = lambda label, seconds: None,
) -> Record:
    """A record of what the measures read in this model, or of why they refused.

    A measure that refuses (`InputError`) leaves its reason in `record.refused`, and the others go on; whoever needs
    a reading decides what its absence means. `method` says who made the model (label, kind, fields, ...), `setting`
    what the model and the task do not say. With `into` the readings are added to that record instead. `tell` hears
    of every measure with the seconds that it took.
    """
    record = into or Record(
        name=name,
        setting=_setting(model, task, setting or {}),
        method=_method(model, name, method or {}),
        seeds=dict(seeds or {}),
        readings={},
        seconds=dict(seconds or {}),
        command=command,
    )
    for measure in measures:
        start = time.perf_counter()
        reading, why = None, ""
        with about(record.name):
            announce(measure.label)
            try:
                reading = measure(model, task)
            except InputError as error:
                why = str(error)
        spent = time.perf_counter() - start
        record = record.and_read(measure, reading, spent, why)
        tell(measure.label, spent)
    return record


def _setting(model: Classifier, task: ForgetTask, more: Mapping[str, Any]) -> Setting:
    # The manifest hashes all images: whoever measures many models hands it in.
    known = more if "task" in more else {"task": task.manifest(), **more}
    return Setting(**{"network": model.architecture} | dict(known))


def _method(model: Classifier, name: str, more: Mapping[str, Any]) -> MethodFacts:
    known = more if "weights" in more else {"weights": weights_digest(model), **more}
    return MethodFacts(**{"label": name} | dict(known))
