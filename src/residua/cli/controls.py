"""`residua controls` and `residua calibrate`: verdict and estimator where the truth is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from residua.audits.verifying import reports_in
from residua.cli import options as opt
from residua.cli.console import report_failures, say, show, study_progress, write_text
from residua.cli.inputs import ScaleOption, choose_device, open_task
from residua.compare import Rules
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.measure.information.calibration import PROBLEMS
from residua.record import Record
from residua.report.audit import AuditReport
from residua.report.calibration import calibration_figure, calibration_table
from residua.report.controls import (
    check_alike,
    compact,
    control_reports,
    detector_table,
    fooled_table,
    residue_table,
    verdict_table,
)
from residua.report.pages import PAGE, controls_page
from residua.study import calibrating, presets
from residua.text import slug


def controls(
    data: opt.Data = "fashion-sample",
    forget: opt.Forget = "class:6",
    scale: ScaleOption = "tiny",
    seeds: Annotated[int, opt.run("Number of seeds (0, 1, ...): each has its own models.", min=1)] = 20,
    first: Annotated[int, opt.run("First seed to run; earlier ones count by their reports in --out.", min=0)] = 0,
    references: Annotated[
        int, opt.methods("Retrained models of each seed that the others are compared with.", min=1)
    ] = 3,
    method: Annotated[
        list[str] | None, opt.methods("Only this control or method (and Original); may be repeated.")
    ] = None,
    ratio: Annotated[str, opt.methods("Retain samples to keep: all, 1:5 (forget : retain) or 10%.")] = "all",
    margin: opt.Margin = None,
    out: Annotated[Path, opt.output("Folder for models, records and tables.", metavar="DIR")] = Path("controls"),
    network: opt.OurNetwork = None,
    jobs: opt.Jobs = 2,
    device: opt.Device = "auto",
) -> None:
    """Audit Original, a further Retrain, Random, cheats and models made to deceive, and count the verdicts.

    --out gets the tables, the report of every audit, and under evidence/ what was measured, which is much
    larger. What is already there is not made again, so a stopped run resumes. Where evidence/ is gone, --first counts
    the seeds before it by their reports, if those were made alike.

    Example: residua controls --seeds 3 --out controls/
    """
    rules = Rules(margin=margin)
    if first >= seeds:
        raise InputError(f"--first is {first}, expected less than --seeds, which is {seeds}")
    earlier = _earlier(out, first)
    check_place(out / "table.md")
    where = choose_device(device)
    task = open_task(data, forget)
    study = presets.controls(
        task, scale=scale, seeds=range(first, seeds), references=references, network=network, labels=method, ratio=ratio
    )
    with study_progress(where) as reporting:
        finished = presets.complete(study, out / "evidence", jobs=jobs, device=str(where), **reporting)
    reports = control_reports(finished.records, rules)
    check_alike(earlier, reports)
    for each in reports:
        name = f"seed{each.about['seed']}-{slug(each.about['control'])}.json"
        write_text(out / name, f"{compact(each)}\n")
    reports = [*reports, *earlier]  # rows in the order of the study
    residues = residue_table(reports)
    tables = [
        verdict_table(reports), *([residues] if residues else []), detector_table(reports), fooled_table(reports)
    ]  # fmt: skip
    markdown = "\n".join(table.markdown() for table in tables) + f"\n`{opt.command_line()}`\n"
    write_text(out / "table.md", markdown)
    write_text(out / PAGE, controls_page(reports))
    for table in tables:
        show(table)
    say(f"Tables and reports are in {out}/; open {out / PAGE}.")
    report_failures(finished.failures)


def _earlier(folder: Path, first: int) -> list[AuditReport]:
    """The reports of the seeds before `first`, all of which must be there."""
    reports = [each for each in reports_in(folder) if each.about["seed"] < first] if first else []
    missing = sorted(set(range(first)) - {each.about["seed"] for each in reports})
    if missing:
        raise InputError(
            f"{folder} holds no reports of seed {missing[0]}, but --first is {first}; run the earlier seeds too, or "
            "give the folder of their reports"
        )
    return reports


def calibrate(
    out: Annotated[Path, opt.output("Folder for the records, the table and the figure.", metavar="DIR")] = Path(
        "calibration"
    ),
    repeats: Annotated[int, opt.run("Fresh draws of each problem.", min=2)] = 100,
    only: Annotated[list[str] | None, opt.run("Only problems of this name; may be repeated.")] = None,
    jobs: Annotated[int, opt.run("Problems read in parallel.", min=1)] = 1,
) -> None:
    """Check the estimator on features whose mutual information is known exactly: bias, spread, coverage.

    Finished problems are kept in --out and not read again. The table has every problem whose record is there.

    Example: residua calibrate --repeats 20 --out calibration/
    """
    names = [problem.name for problem in PROBLEMS]
    unknown = sorted(set(only or []) - set(names))
    if unknown:
        raise InputError(f"there is no problem {unknown[0]!r}, only {', '.join(names)}; choose one")
    check_place(out / "table.md")
    chosen = [problem for problem in PROBLEMS if not only or problem.name in only]
    with study_progress() as reporting:
        calibrating.calibrate(chosen, out=out, repeats=repeats, jobs=jobs, **reporting)
    records = _there(out)
    table = calibration_table(records)
    commands = dict.fromkeys(record.command for record in records)
    text = "\n".join([table.markdown(), *(f"`{command}`\n" for command in commands)])
    write_text(out / "table.md", text)
    write_atomically(out / "figure.svg", lambda part: calibration_figure(records, part))
    show(table)
    say(f"Records, table and figure are in {out}/.")


def _there(folder: Path) -> list[Record]:
    """The records of problems as they are today, in their order."""
    places = {problem: folder / f"{problem.name}.json" for problem in PROBLEMS}
    found = {problem: Record.read(place) for problem, place in places.items() if place.exists()}
    return [record for problem, record in found.items() if record.setting.problem == dataclasses.asdict(problem)]
