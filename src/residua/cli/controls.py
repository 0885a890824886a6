"""`residua controls`: verdicts on models whose truth is known, over seeds."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.audits.reports import reports_in
from residua.cli.console import say, show
from residua.cli.options import DataOption, DeviceOption, ForgetOption, choose_device, open_task
from residua.cli.progress import following, report_failures
from residua.cli.report import write_controls_page
from residua.cli.words import JobsOption, OurNetwork, command_line
from residua.compare import Rules
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.report import (
    AuditReport,
    check_alike,
    compact,
    control_reports,
    detector_table,
    fooled_table,
    verdict_table,
)
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
    first: Annotated[
        int,
        typer.Option(min=0, help="Run from this seed on; earlier ones count by their reports in --out."),
    ] = 0,
    references: Annotated[
        int, typer.Option(min=1, help="Retrained models of each seed that the others are compared with.")
    ] = 3,
    method: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Only this control or method (and Original); may be repeated."),
    ] = None,
    ratio: Annotated[
        str,
        typer.Option(help="Retain samples to keep: all, 1:5 (forget : retain) or 10%."),
    ] = "all",
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
    larger. What is already there is not made again, so a stopped run resumes. Where evidence/ is gone, --first counts
    the seeds before it by their reports, if those were made alike.
    """
    rules = Rules(margin=margin)
    if first >= seeds:
        raise InputError(f"--first is {first}, expected less than --seeds, which is {seeds}")
    earlier = _earlier(out, first)
    check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget)
    with following() as progress:
        finished = run_controls(
            task,
            out=out / "evidence",
            scale=scale,
            seeds=range(first, seeds),
            references=references,
            network=network,
            labels=method,
            ratio=ratio,
            jobs=jobs,
            device=str(where),
            command=command_line(),
            tell=say,
            progress=progress,
        )
    reports = control_reports(finished.records, rules)
    check_alike(earlier, reports)
    for report in reports:
        name = f"seed{report.about['seed']}-{slug(report.about['control'])}.json"
        text = f"{compact(report)}\n"
        write_atomically(out / name, functools.partial(Path.write_text, data=text, encoding="utf-8"))
    reports = [*reports, *earlier]  # rows in the order of the study
    tables = [verdict_table(reports), detector_table(reports), fooled_table(reports)]
    markdown = "\n".join(table.markdown() for table in tables) + f"\n`{command_line()}`\n"
    write_atomically(out / "table.md", lambda part: part.write_text(markdown, "utf-8"))
    for table in tables:
        show(table)
    say(f"Tables and reports are in {out}/; open {write_controls_page(out, reports)}.")
    report_failures(finished.failures)


def _earlier(folder: Path, first: int) -> list[AuditReport]:
    """The reports of the seeds before `first`, all of which must be there."""
    reports = [report for report in reports_in(folder) if report.about["seed"] < first] if first else []
    missing = sorted(set(range(first)) - {report.about["seed"] for report in reports})
    if missing:
        raise InputError(
            f"{folder} holds no reports of seed {missing[0]}, but --first is {first}; run the earlier seeds too, or "
            "give the folder of their reports"
        )
    return reports
