"""`residua catalogue`: every method on one task, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua import plugins
from residua.cli.console import say, show
from residua.cli.options import DataOption, DeviceOption, ForgetOption, choose_device, open_task
from residua.cli.progress import following, report_failures
from residua.cli.report import tell_page
from residua.cli.study_choice import CompactOption
from residua.cli.words import JobsOption, OurNetwork, PluginOption, command_line
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve, Measure, measures
from residua.report import catalogue_table
from residua.study import catalogue as run_catalogue
from residua.study.presets import FULL_STACK
from residua.training.recipes import Scale
from residua.unlearn import find


def catalogue(
    data: DataOption = "fashion-sample",
    forget: ForgetOption = "class:6",
    scale: Annotated[
        Scale, typer.Option(help="Default hyperparameters: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds 0, 1, ...: each has its own Original and Retrain.")
    ] = 1,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Only this method (and Original, Retrain); may be repeated."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", hidden=True)] = None,
    plugin: PluginOption = None,
    out: Annotated[Path, typer.Option(help="Folder for models, records and the table.")] = Path("catalogue"),
    information: Annotated[bool, typer.Option(help="Measure what the blocks know, and IDI.")] = True,
    restarts: Annotated[int, typer.Option(min=1, help="Number of times that each critic is fitted.")] = 1,
    network: OurNetwork = None,
    jobs: JobsOption = 2,
    device: DeviceOption = "cpu",
    compact: CompactOption = False,
) -> None:
    """Train Original and Retrain, run every method, and print what models say and what they know.

    What is already in --out is not made again, so a stopped run resumes.
    """
    labels = [find(label).label for label in (*(method or ()), *(only or ()))]
    check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget)
    with following() as progress:
        finished = run_catalogue(
            task,
            out=out,
            scale=scale,
            methods=labels or None,
            seeds=seeds,
            network=network,
            measures=((InformationCurve(restarts=restarts),) if information else ())
            + FULL_STACK
            + _of_files(),
            jobs=jobs,
            device=str(where),
            compact=compact,
            command=command_line(),
            tell=say,
            progress=progress,
        )
    table = catalogue_table(finished.records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
    show(table)
    tell_page(out, finished)
    say(f"Records and table are in {out}/.")
    report_failures(finished.failures)


def _of_files() -> tuple[Measure, ...]:
    """The measures of --plugin files: if you name a file, you want its measures."""
    return tuple(kind() for kind in measures().values() if kind.__module__.startswith(plugins.PREFIX))
