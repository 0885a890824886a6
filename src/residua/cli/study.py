"""`residua study`: run a study, plan it, look at it, and keep its folder in order."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer

from residua.cli.console import out as console
from residua.cli.console import say, show
from residua.cli.preparing import with_preprocessing
from residua.cli.study_choice import (
    CompactOption,
    Data,
    Draws,
    Forget,
    Method,
    Name,
    Out,
    Seeds,
    TrajectoryOption,
    chosen_study,
)
from residua.cli.study_table import table
from residua.cli.study_verdicts import verdicts
from residua.cli.words import AsJson, OurNetwork, PluginOption, command_line
from residua.errors import InputError
from residua.files import check_place
from residua.texts import duration

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def study() -> None:
    """Run settings x methods x seeds with one command, and resume after any interruption."""


def _there(folder: Path) -> Path:
    if not folder.is_dir() or not (folder / "cells").is_dir():
        raise InputError(f"{folder} holds no study; give the folder that `residua study run --out` wrote to")
    return folder


Folder = Annotated[
    Path, typer.Argument(metavar="DIR", callback=_there, help="The folder that `study run --out` wrote to.")
]


@app.command()
@with_preprocessing
def run(
    name: Name,
    out: Out,
    method: Method = None,
    seeds: Seeds = None,
    draws: Draws = None,
    data: Data = None,
    forget: Forget = None,
    network: OurNetwork = None,
    plugin: PluginOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, one thread each.")] = 2,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Worker processes here, or tasks of a Ray cluster.")
    ] = "local",
    address: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Address of a running Ray cluster, or auto; without it Ray is started here."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")] = "cpu",
    limit: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="End a worker that takes longer over one model: 10m, 2h."),
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How often a training that takes long keeps its state.")
    ] = "2m",
    trajectory: TrajectoryOption = False,
    compact: CompactOption = False,
) -> None:
    """Make and measure what is missing; the same command resumes.

    Exit code 0: everything is there, 1: some cells failed and are named, 3: bad input, 130: interrupted.
    """
    from residua.cli.options import choose_device
    from residua.cli.progress import following, report_failures
    from residua.cli.report import tell_page
    from residua.report.studies import study_rows, study_tables
    from residua.study import conducting
    from residua.texts import seconds_of

    check_place(out / "study.json")
    study = chosen_study(name, method, seeds, draws, data, forget, network, trajectory, compact)
    with following() as progress:
        finished = conducting.run(
            study,
            out,
            jobs=jobs,
            engine=engine,
            address=address,
            device=str(choose_device(device)),
            limit=None if limit is None else seconds_of(limit, "--limit"),
            keep=seconds_of(keep, "--keep"),
            command=command_line(),
            tell=say,
            progress=progress,
        )
    rows = study_rows(finished.records)
    for each in study_tables(finished.records, rows=rows):
        show(each)
    tell_page(out, finished, rows)
    say(f"{finished.computed} cells computed, {finished.reused} found; records are in {out}/records/.")
    report_failures(finished.failures)


@app.command()
@with_preprocessing
def plan(
    name: Name,
    out: Out,
    method: Method = None,
    seeds: Seeds = None,
    draws: Draws = None,
    data: Data = None,
    forget: Forget = None,
    network: OurNetwork = None,
    plugin: PluginOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes that the time is divided by.")] = 2,
    device: Annotated[str, typer.Option(help="Kind of device that the study runs on.")] = "cpu",
    trajectory: TrajectoryOption = False,
    as_json: AsJson = False,
) -> None:
    """What `study run` would make, what is there already, and what it will cost, judging by what was measured."""
    from residua.study import looking

    study = chosen_study(name, method, seeds, draws, data, forget, network, trajectory)
    planned = looking.plan(study, out, device)
    if as_json:
        console.print_json(json.dumps(dataclasses.asdict(planned)))
        return
    for kind in dict.fromkeys((*planned.there, *planned.missing)):
        here, left = planned.there.get(kind, 0), planned.missing.get(kind, 0)
        console.print(f"{kind}: {left} to make, {here} there", markup=False)
    if planned.missing:
        console.print(_cost(planned, jobs), markup=False)


def _cost(planned: Any, jobs: int) -> str:
    if planned.unknown == sum(planned.missing.values()):
        return "What they cost is unknown: nothing like them was made here yet."
    unknown = f", and {planned.unknown} cells of unknown cost" if planned.unknown else ""
    return f"About {duration(planned.seconds / jobs)} with {jobs} at a time{unknown}."


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Where the last run is: done, running, left, failures."""
    from residua.cli.progress import left_in_words
    from residua.study import looking

    state = looking.status(folder)
    if as_json:
        console.print_json(json.dumps(state))
        return
    left = state["total"] - state["done"] - state["failed"]
    over = "finished" if state["finished"] else "running" if state["processes"] else "stopped"
    words = left_in_words(state.get("left", 0.0), state.get("unknown", 0)) if left else ""
    more = f" ({words})" if words else ""
    console.print(f"{over}: {state['done']} of {state['total']} cells done, {left} left{more}", markup=False)
    for label, values in (("running", state["running"]), ("damaged and set aside", state["damaged"])):
        if values:
            console.print(f"{label}: {', '.join(values)}", markup=False)
    for cell, reason in state["failures"].items():
        console.print(f"failed: {cell}: {reason}", markup=False)


@app.command()
def why(folder: Folder, cell: Annotated[str, typer.Argument(help="Such as seed0-cola/information.")]) -> None:
    """What made a cell run again: which of its inputs changed, old and new."""
    from residua.study import looking

    changes = looking.why(folder, cell)
    for change in changes or [f"{cell} was made once; nothing that it depends on has changed"]:
        console.print(change, markup=False)


app.command()(table)
app.command()(verdicts)


@app.command()
def check(folder: Folder) -> None:
    """Compare every file of the study with its hash. Exit code 1: some were damaged, and are named."""
    from residua.study.store import Store

    sentences = Store(folder).check()
    for sentence in sentences or ["Every file is what was written."]:
        console.print(sentence, markup=False)
    if sentences:
        raise typer.Exit(1)


@app.command()
def prune(
    folder: Folder,
    models: Annotated[
        bool, typer.Option("--models", help="Also remove weights; they are made again where they are needed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
) -> None:
    """Remove what the last run did not need: results of old settings, and what was damaged."""
    from residua.study import looking

    files, size = looking.prune(folder, models=models, dry=dry_run)
    verb = "would be removed" if dry_run else "removed"
    console.print(f"{files} files with {size / 1e6:.1f} MB {verb}.", markup=False)
