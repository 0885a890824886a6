"""`residua ulira`: a likelihood-ratio attack on unlearning methods, by shadow models that all methods share."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from residua.cli import options as opt
from residua.cli.console import say, show, study_progress, write_text
from residua.cli.inputs import ScaleOption, choose_device
from residua.data import open_dataset
from residua.data.task import Dataset
from residua.errors import InputError
from residua.files import check_place
from residua.report.methods import ulira_table
from residua.study import shadows
from residua.study.presets import NETWORK, network_fields
from residua.text import seconds_of
from residua.training.recipes import SHADOWS, pretraining, unlearning
from residua.unlearn import find

attack = opt.panel("Attack")


def ulira(
    method: Annotated[list[str], opt.methods("Method, such as SCRUB or COLA; may be repeated.")],
    data: opt.Data = "fashion-sample",
    scale: ScaleOption = "tiny",
    models: Annotated[
        int | None, attack("Number of shadow models, a multiple of 4.", show_default="by scale: 16, 16, 128")
    ] = None,
    forget_sets: Annotated[
        int | None,
        attack("Number of forget sets that each model unlearns in turn.", min=1, show_default="by scale: 4, 10, 40"),
    ] = None,
    size: Annotated[int | None, attack("Mean size of a forget set.", show_default="by scale: 40, 200, 200")] = None,
    of_class: Annotated[
        str | None, attack("Class whose examples are forgotten, or all.", show_default="by scale: 6, 4, 4")
    ] = None,
    variance: Annotated[
        Literal["example", "shared"] | None,
        attack(
            "Variance of the attack: one of each example, or one for all.",
            show_default="by scale: shared, shared, example",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        attack("Epochs of each shadow model; more of them memorise more.", min=1, show_default="by scale: 12, 10, 300"),
    ] = None,
    budget: Annotated[
        str | None, opt.run("Start nothing that would take longer: 90s, 10m, 2h, 3d.", metavar="TIME")
    ] = None,
    out: Annotated[Path, opt.output("Folder for shadow models, scores and the table.", metavar="DIR")] = Path("ulira"),
    jobs: Annotated[
        int | None,
        opt.run(
            "Models made in parallel, one thread each.",
            min=1,
            show_default="all cores, or 1 on a GPU and at full scale",
        ),
    ] = None,
    network: opt.OurNetwork = None,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
) -> None:
    """Attack methods by likelihood ratios: can what was unlearned be distinguished from what was never seen?

    Original is attacked too. The cost is reported before anything starts. Shadow models and scores that are in --out already are
    not made again, so a run that was stopped goes on, and further methods share the models.

    Example: residua ulira --method SCRUB --method COLA --out ulira/
    """
    allowed = None if budget is None else seconds_of(budget)
    for label in method:
        find(label)  # an unknown name costs no loading
    chosen = SHADOWS[scale]
    check_place(out / "table.md")
    where = choose_device(device)
    opened = open_dataset(data)
    for note in opened.notes:
        say(f"note: {note}")
    name = network or NETWORK
    shape = network_fields(opened.classes, opened.shape, scale, name)
    training = pretraining(scale, opened.name, name)
    if epochs is not None:
        training = replace(training, epochs=epochs)
    recipes = unlearning(scale, "random", opened.name, name)
    labels = list(dict.fromkeys(find(label).label for label in method))
    if jobs is None:
        jobs = 1 if where.type != "cpu" or scale == "full" else os.cpu_count() or 1
    with study_progress(where) as reporting:
        records = shadows.ulira(
            [find(label, **recipes.get(label, {})) for label in labels],
            opened,
            network=shape,
            pretraining=training,
            out=out,
            models=chosen.models if models is None else models,
            forget_sets=chosen.forget_sets if forget_sets is None else forget_sets,
            size=chosen.size if size is None else size,
            of_class=chosen.of_class if of_class is None else _class(opened, of_class),
            variance=variance or chosen.variance,
            scale=scale,
            seed=seed,
            device=str(where),
            jobs=jobs,
            budget=allowed,
            **reporting,
        )
    table = ulira_table(records)
    write_text(out / "table.md", table.markdown())
    show(table)
    say(f"Shadow models, scores, records and the table are in {out}/.")


def _class(data: Dataset, word: str) -> int | None:
    if word == "all":
        return None
    if word in data.class_names:
        return data.class_names.index(word)
    if not re.fullmatch(r"\d{1,9}", word, re.ASCII):
        raise InputError(f"--of-class {word!r} is not understood; give a class of {data.name}, or all")
    return int(word)
