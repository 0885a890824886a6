"""`residua controls`: verdicts on models whose truth is known, over seeds."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.cli.console import say, show
from residua.cli.options import DataOption, DeviceOption, ForgetOption, choose_device, open_task
from residua.cli.progress import following, report_failures
from residua.cli.report import write_controls_page
from residua.cli.words import JobsOption, OurNetwork, command_line
from residua.compare import Rules
from residua.files import check_place, write_atomically
from residua.report import compact, control_reports, detector_table, fooled_table, verdict_table
from residua.study import controls as run_controls
from residua.texts import slug
from residua.training.recipes import Scale


def controls(
    data: DataOption = "fashion-sample",
    forget: ForgetOption = "class:6",
    scale: Annotated[
        Scale, typer.Option(help="Default hyperparameters: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ...: each has its own models.")] = 20,
    references: Annotated[
        int, typer.Option(min=1, help="Retrained models of each seed that the others are compared with.")
    ] = 3,
    margin: Annotated[
        Optional[float],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Equivalence margin, as for `residua audit`."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for models, records and tables.")] = Path("controls"),
    network: OurNetwork = None,
    jobs: JobsOption = 2,
    device: DeviceOption = "cpu",
) -> None:
    """Audit Original, a further Retrain, Random, cheats and models made to deceive, and count the verdicts.

    --out gets the tables, the report of every audit, and under evidence/ what was measured, which is much
    larger. What is already there is not made again, so a stopped run resumes.
    """
    rules = Rules(margin=margin)
    check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget)
    with following() as progress:
        finished = run_controls(
            task,
            out=out / "evidence",
            scale=scale,
            seeds=seeds,
            references=references,
            network=network,
            jobs=jobs,
            device=str(where),
            command=command_line(),
            tell=say,
            progress=progress,
        )
    reports = control_reports(finished.records, rules)
    for report in reports:
        name = f"seed{report.about['seed']}-{slug(report.about['control'])}.json"
        text = f"{compact(report)}\n"
        write_atomically(out / name, functools.partial(Path.write_text, data=text, encoding="utf-8"))
    tables = [verdict_table(reports), detector_table(reports), fooled_table(reports)]
    markdown = "\n".join(table.markdown() for table in tables) + f"\n`{command_line()}`\n"
    write_atomically(out / "table.md", lambda part: part.write_text(markdown, "utf-8"))
    for table in tables:
        show(table)
    say(f"Tables and reports are in {out}/; open {write_controls_page(out, reports)}.")
    report_failures(finished.failures)
