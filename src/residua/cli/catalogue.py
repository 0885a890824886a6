"""`residua catalogue`: every method on one task, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli.cells import FULL_STACK, Cell, Setting, file_name, kept_in, records_of
from residua.cli.console import say, show
from residua.cli.options import DataOption, ForgetOption, command_line, open_task
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve
from residua.recipes import Scale
from residua.report import catalogue_table
from residua.unlearn import find, methods

# Not Original's seed: a Retrain that draws what Original drew would not be independent of it.
METHOD_SEEDS = 1000


def catalogue(
    data: DataOption = "fashion-sample",
    forget: ForgetOption = "class:6",
    scale: Annotated[
        Scale, typer.Option(help="Whose settings: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds 0, 1, ...: each has its own Original and Retrain.")
    ] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this method (and Original, Retrain); may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for records and the table.")] = Path("catalogue"),
    weights: Annotated[
        Path | None, typer.Option(help="Keep the models in this folder; without it they are not kept.")
    ] = None,
    information: Annotated[bool, typer.Option(help="Measure what the blocks know, and IDI.")] = True,
    restarts: Annotated[int, typer.Option(min=1, help="Times that each critic is fitted.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Models made side by side, one thread each.")] = 2,
) -> None:
    """Train Original and Retrain, run every method, and print what models say and what they know.

    Records that are in --out already are not made again, so a run that was stopped goes on.
    """
    wanted = {find(label).label for label in only} | {"Original", "Retrain"} if only else set(methods())
    check_place(out / "table.md")
    if weights:
        check_place(weights / "original.safetensors")
    open_task(data, forget)  # what is wrong with it is said before anything starts
    cells = [
        Cell(f"seed{seed}-{file_name(label)}", label, label, seed, METHOD_SEEDS + seed)
        for seed in range(seeds)
        for label in (*methods(), *sorted(wanted - set(methods())))  # EU and CF go by any k
        if label in wanted
    ]
    with kept_in(weights) as folder:
        setting = Setting(
            data=data,
            forget=forget,
            scale=scale,
            weights=folder,
            measures=((InformationCurve(restarts=restarts),) if information else ()) + FULL_STACK,
            command=command_line(),
        )
        table = catalogue_table(records_of(setting, cells, out, jobs))
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
    show(table)
    say(f"Records and table are in {out}/.")
