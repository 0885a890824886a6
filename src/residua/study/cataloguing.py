"""catalogue and demonstration: studies of one task that end in records, tables and verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from residua.audits import NEEDED
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import InformationCurve, Measure, Membership, Recovery
from residua.study.conducting import Finished, run
from residua.study.definition import Row, Study
from residua.study.presets import NETWORK, at_scale, every_method, network_for, trained_at
from residua.training.recipes import Scale


def catalogue(
    task: ForgetTask,
    *,
    out: str | Path,
    scale: Scale = "tiny",
    methods: Iterable[str] | None = None,
    seeds: int = 1,
    measures: Sequence[Measure] | None = None,
    network: str | None = None,
    compact: bool = False,
    **how: Any,
) -> Finished:
    """Every method, or those named, on one task, over seeds 0, 1, ... `how` goes to `run`: jobs, device, tell, ..."""
    study = every_method(
        task, scale=scale, labels=methods, seeds=range(seeds), measures=measures, network=network
    )
    study = dataclasses.replace(study, compact=compact)
    return complete(study, run(study, out, **how))


def demonstration(
    task: ForgetTask,
    *,
    out: str | Path,
    scale: Scale = "tiny",
    seed: int = 0,
    network: str | None = None,
    **how: Any,
) -> Finished:
    """A few methods, and a second Retrain as the one that must pass, measured as far as verdicts need it."""
    network = network or NETWORK
    labels = ("Original", "Retrain", "HD", "COLA", "Random")
    made = {label: at_scale(label, scale, task, network) for label in labels}
    again = Row("Retrain again", made["Retrain"], draw=1)
    study = Study(
        tasks={task.dataset: task},
        networks={network: network_for(task, scale, network)},
        pretraining=trained_at(scale),
        methods=[
            made["Original"],
            made["Retrain"],
            again,
            *(made[label] for label in ("HD", "COLA", "Random")),
        ],
        measures=(InformationCurve(), *NEEDED, Membership(), Recovery()),
        seeds=(seed,),
        scale=scale,
        name="demo",
    )
    return complete(study, run(study, out, **how))


def complete(study: Study, finished: Finished) -> Finished:
    """Without Original or Retrain of some seed nothing can be compared."""
    if not finished.records:
        first = next(iter(finished.failures.items()), ("it", "no method supports this task"))
        raise InputError(f"nothing of the study {study.name} could be made; {first[0]}: {first[1]}")
    return finished
