"""Controls: a study of models whose truth is known, measured as an audit measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residua.audits import BESIDE, NEEDED
from residua.data.task import ForgetTask
from residua.measure import InformationCurve
from residua.report.controls import FURTHER, REFERENCES
from residua.study.cataloguing import complete
from residua.study.conducting import Finished, run
from residua.study.definition import Row, Study
from residua.study.presets import NETWORK, at_scale, network_for, trained_at
from residua.training.recipes import Scale
from residua.unlearn import Unlearner
from residua.unlearn.cheats import CHEATS
from residua.unlearn.deceivers import DECEIVERS
from residua.unlearn.impostors import impostors


def controls(
    task: ForgetTask,
    *,
    out: str | Path,
    scale: Scale = "tiny",
    seeds: int | Sequence[int] = 20,
    references: int = 3,
    network: str | None = None,
    labels: Sequence[str] | None = None,
    ratio: str = "all",
    **how: Any,
) -> Finished:
    """Original, references, a further Retrain, Random, HD, cheats, deceivers and impostors, over seeds 0, 1, ...

    Partly honest ones are there besides: FT, a weak COLA (half of its epochs), and a true mixture. What cannot
    be done with a task that forgets samples is left out of it. `labels` are those to audit, if not all: names of
    controls, or of methods with the recipes of this scale. `ratio` is the share of retained data that curves take.
    """
    study = controls_study(
        task, scale=scale, seeds=seeds, references=references, network=network, labels=labels, ratio=ratio
    )
    return complete(study, run(study, out, **how))


def controls_study(
    task: ForgetTask,
    *,
    scale: Scale = "tiny",
    seeds: int | Sequence[int] = 20,
    references: int = 3,
    network: str | None = None,
    labels: Sequence[str] | None = None,
    ratio: str = "all",
) -> Study:
    """The study that `controls` runs."""
    network = network or NETWORK
    rows = _rows(task, scale, references, network)
    return Study(
        tasks={task.dataset: task},
        networks={network: network_for(task, scale, network)},
        pretraining=trained_at(scale),
        methods=rows if labels is None else _chosen(rows, labels, task, scale, network),
        measures=(InformationCurve(ratio=ratio), *NEEDED, *BESIDE),
        seeds=range(seeds) if isinstance(seeds, int) else seeds,
        scale=scale,
        name="controls",
    )


def _rows(task: ForgetTask, scale: Scale, references: int, network: str) -> list[Row]:
    """Every control, after Original and the references."""
    labels = ("Original", "Retrain", "HD", "FT", "Random", "COLA")
    made = {label: at_scale(label, scale, task, network) for label in labels}
    retrain: Any = made["Retrain"]
    cola: Any = made["COLA"]
    weak = dataclasses.replace(
        cola, collapse_epochs=max(1, cola.collapse_epochs // 2), align_epochs=max(1, cola.align_epochs // 2)
    )
    others = [Row(f"Retrain {draw + 1}", retrain, draw=draw) for draw in range(1, references)]
    return [
        _named(made["Original"]),
        _named(retrain),
        *others,
        Row(FURTHER, retrain, draw=references),
        _named(made["Random"]),
        _named(made["HD"]),
        *map(_named, (*CHEATS.values(), *DECEIVERS)),
        *(Row(each.label, each, beside=FURTHER) for each in impostors(retrain.pretraining)),
        _named(made["FT"]),
        Row("Weak COLA", weak),
    ]


def _named(method: Unlearner) -> Row:
    return Row(method.label, method)


def _chosen(
    rows: list[Row], labels: Sequence[str], task: ForgetTask, scale: Scale, network: str
) -> list[Row]:
    """Original and the references; of the others those of `labels`, and methods that are no controls."""
    known = {row.label.casefold(): row for row in rows}
    chosen = [
        known.get(label.casefold()) or _named(at_scale(label, scale, task, network)) for label in labels
    ]
    needed = {row.beside for row in chosen}
    wanted = {"Original", *needed, *(row.label for row in chosen)}
    kept = [row for row in rows if row.label in wanted or REFERENCES.fullmatch(row.label)]
    return kept + [row for row in chosen if row not in rows]
