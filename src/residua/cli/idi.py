"""`residua idi`: what the blocks of models still know."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.classifier import weights_digest
from residua.cli.console import say, show, training_bar
from residua.cli.options import (
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
    record_name,
    with_fields,
)
from residua.compare import curve_fields
from residua.files import check_place, write_atomically
from residua.measure import Accuracy, InformationCurve
from residua.record import Record
from residua.report import information_table
from residua.training import seeded
from residua.unlearn import Random


@with_fields(InformationCurve, leave_out=("blocks",))
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
    scale: Annotated[str, typer.Option(help="What the table and records say of the scale.")] = "custom",
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Write records and table to this folder.")] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Mutual information of the last blocks with what was to be forgotten, and IDI with its interval."""
    if out:
        check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget)
    places = named(
        {"Original": original, "Retrain": reference}, models or [], kept=["Random"] if random else []
    )
    loaded = {label: load_for(task, path, where, network, cuts, trust) for label, path in places.items()}
    if random:
        with seeded(0):
            loaded["Random"] = Random()(loaded["Original"], task)
    measure = dataclasses.replace(InformationCurve(), **fields)
    records = []
    for label, model in loaded.items():
        start = time.perf_counter()
        with training_bar(f"critics of {label}"):
            curve = measure(model, task)
        kept = curve_fields(curve)
        kept["readings"]["accuracy"] = dict(Accuracy()(model, task).values)
        records.append(
            Record(
                name=record_name(label),
                setting={"scale": scale, "network": model.architecture, "task": task.manifest()},
                method={"label": label, "weights": weights_digest(model)},
                seeds={"critics": measure.seed},
                seconds={"information": time.perf_counter() - start},
                command=command_line(),
                **kept,
            )
        )
    table = information_table(records)
    if out:
        for record in records:
            record.write(out)
        write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
        say(f"Records and table are in {out}/.")
    show(table)
