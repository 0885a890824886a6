"""`residua idi`: what the blocks of models still know."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.cli.console import say, show, stages
from residua.cli.options import (
    CRITIC,
    CutsOption,
    DataOption,
    DeviceOption,
    ForgetOption,
    NetworkOption,
    TrustOption,
    choose_device,
    command_line,
    load_for,
    named,
    open_task,
    with_fields,
)
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.measure import Accuracy, InformationCurve
from residua.measure.measuring import measured
from residua.report import information_table, order_table
from residua.texts import slug
from residua.training.loop import seeded
from residua.unlearn import Random


@with_fields(InformationCurve, leave_out=("blocks",), qualified=CRITIC, panel="The critics")
def idi(
    original: Annotated[Path, typer.Option(help="Checkpoint of Original: IDI 1.")],
    reference: Annotated[Path, typer.Option(help="Checkpoint of the reference, usually Retrain: IDI 0.")],
    data: DataOption,
    forget: ForgetOption,
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Other checkpoints to place between them.", metavar="[MODEL]..."),
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    random: Annotated[bool, typer.Option("--random", help="Also a network with random weights.")] = False,
    scale: Annotated[str, typer.Option(help="The scale that the table and the records name.")] = "custom",
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Write records and table to this folder.")] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Mutual information of the last blocks with what was to be forgotten, and IDI with its interval."""
    if out:
        check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget, [original, reference, *(models or [])])
    places = named(
        {"Original": original, "Reference": reference}, models or [], kept=["Random"] if random else []
    )
    loaded = {label: load_for(task, path, where, network, cuts, trust) for label, path in places.items()}
    if random:
        with seeded(0):
            loaded["Random"] = Random()(loaded["Original"], task)
    measure = dataclasses.replace(InformationCurve(), **fields)
    records = []
    setting = {"scale": scale, "task": task.manifest()}
    for label, model in loaded.items():
        with stages():
            record = measured(
                model,
                task,
                (measure, Accuracy()),
                name=slug(label),
                method={"label": label},
                setting=setting,
                seeds={"critics": measure.seed},
                command=command_line(),
            )
        if measure.label in record.refused:
            raise InputError(record.refused[measure.label])
        records.append(record)
    table = information_table(records, reference="Reference")
    if out:
        for record in records:
            record.write(out)
        write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
        say(f"Records and table are in {out}/.")
    show(table)
    if measure.family == "stack" and measure.protocol == "held-out" and len(records) > 2:
        show(order_table(records, reference="Reference"))
