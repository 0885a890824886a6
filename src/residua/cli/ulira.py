"""`residua ulira`: a likelihood ratio attack on unlearning methods, by shadow models that all methods share."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from residua.cli.console import say, show
from residua.cli.options import DataOption, DeviceOption, SeedOption, choose_device
from residua.cli.progress import following
from residua.cli.words import OurNetwork, command_line
from residua.data import open_dataset
from residua.data.task import Dataset
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.report import ulira_table
from residua.study.attacking import ulira as attack
from residua.study.presets import NETWORK, network_fields
from residua.texts import seconds_of
from residua.training.recipes import SHADOWS, Scale, pretraining, unlearning
from residua.unlearn import find


def ulira(
    method: Annotated[list[str], typer.Option(help="Method, such as SCRUB or COLA; may be repeated.")],
    data: DataOption = "fashion-sample",
    scale: Annotated[
        Scale, typer.Option(help="Default hyperparameters: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    models: Annotated[
        Optional[int],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Shadow models, a multiple of 4; by scale: 16, 16, 128."),
    ] = None,
    forget_sets: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Forget sets that each model unlearns in turn; by scale: 4, 10, 40."),
    ] = None,
    size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Examples that a model forgets at a time, on average; by scale: 40, 200, 200."),
    ] = None,
    of_class: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Forget examples of this class, or of all; by scale: 6, 4, 4."),
    ] = None,
    variance: Annotated[
        Optional[Literal["example", "shared"]],  # noqa: UP045
        typer.Option(help="Each example's own, or one for all; by scale: shared, shared, example."),
    ] = None,
    epochs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="Epochs of each shadow model; more of them memorise more.",
            show_default="by scale: 12, 10, 300",
        ),
    ] = None,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="Start nothing that would take longer: 90s, 10m, 2h, 3d."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for shadow models, scores and the table.")] = Path(
        "ulira"
    ),
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="Models made side by side, one thread each; all cores, or 1 on a GPU and at full scale.",
        ),
    ] = None,
    network: OurNetwork = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Can an attacker distinguish what a method has unlearned from what was never seen? Original is attacked too.

    The cost is reported before anything starts. Shadow models and scores that are in --out already are
    not made again, so a run that was stopped goes on, and further methods share the models.
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
    with following() as progress:
        records = attack(
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
            command=command_line(),
            tell=say,
            progress=progress,
        )
    table = ulira_table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
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
