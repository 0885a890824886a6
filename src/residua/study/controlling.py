"""Controls: a study of models whose truth is known, measured as an audit measures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from residua.audits import BESIDE, NEEDED
from residua.data.task import ForgetTask
from residua.measure import InformationCurve
from residua.study.cataloguing import complete
from residua.study.conducting import Finished, run
from residua.study.definition import Row, Study
from residua.study.presets import NETWORK, at_scale, network_for, trained_at
from residua.training.recipes import Scale
from residua.unlearn.cheats import CHEATS
from residua.unlearn.deceivers import DECEIVERS
from residua.unlearn.impostors import impostors

FURTHER = "Further Retrain"


def controls(
    task: ForgetTask,
    *,
    out: str | Path,
    scale: Scale = "tiny",
    seeds: int = 20,
    references: int = 3,
    network: str | None = None,
    **how: Any,
) -> Finished:
    """Original, references, a further Retrain, Random, HD, cheats, deceivers and impostors, over seeds 0, 1, ...

    Partly honest ones are there besides: FT, a weak COLA (half of its epochs), and a true mixture. What cannot
    be done with a task that forgets samples is left out of it.
    """
    study = controls_study(task, scale=scale, seeds=seeds, references=references, network=network)
    return complete(study, run(study, out, **how))


def controls_study(
    task: ForgetTask,
    *,
    scale: Scale = "tiny",
    seeds: int = 20,
    references: int = 3,
    network: str | None = None,
) -> Study:
    """The study that `controls` runs."""
    network = network or NETWORK
    labels = ("Original", "Retrain", "HD", "FT", "Random", "COLA")
    made = {label: at_scale(label, scale, task, network) for label in labels}
    retrain: Any = made["Retrain"]
    cola: Any = made["COLA"]
    weak = dataclasses.replace(
        cola, collapse_epochs=max(1, cola.collapse_epochs // 2), align_epochs=max(1, cola.align_epochs // 2)
    )
    others = [Row(f"Retrain {draw + 1}", retrain, draw=draw) for draw in range(1, references)]
    return Study(
        tasks={task.dataset: task},
        networks={network: network_for(task, scale, network)},
        pretraining=trained_at(scale),
        methods=[
            made["Original"],
            retrain,
            *others,
            Row(FURTHER, retrain, draw=references),
            made["Random"],
            made["HD"],
            *CHEATS.values(),
            *DECEIVERS,
            *(Row(each.label, each, beside=FURTHER) for each in impostors(retrain.pretraining)),
            made["FT"],
            Row("Weak COLA", weak),
        ],
        measures=(InformationCurve(), *NEEDED, *BESIDE),
        seeds=range(seeds),
        scale=scale,
        name="controls",
    )
