"""`residua demo`: the main job on the embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli.console import out as console
from residua.cli.console import say, show
from residua.cli.options import DeviceOption, SeedOption, choose_device, open_task
from residua.cli.progress import following, report_failures
from residua.cli.report import write_study_page
from residua.cli.words import JobsOption, OurNetwork, command_line
from residua.compare import Rules
from residua.files import check_place, write_atomically
from residua.report import catalogue_table, control_reports
from residua.study import demonstration


def demo(
    out: Annotated[Path, typer.Option(help="Folder for models, records and the table.")] = Path("demo"),
    seed: SeedOption = 0,
    network: OurNetwork = None,
    jobs: JobsOption = 2,
    device: DeviceOption = "cpu",
) -> None:
    """Forget class 6 (shirt) of the embedded Fashion-MNIST sample: what models say, what they know, the verdicts.

    What is already in --out is not made again, so the same command resumes where it was stopped.
    """
    check_place(out / "table.md")
    where = choose_device(device)
    say(
        "Forgetting class 6 (shirt) of 6,000 embedded images of clothes. This takes about two minutes on two AVX-512 cores, longer on others."
    )
    task = open_task("fashion-sample", "class:6")
    with following() as progress:
        finished = demonstration(
            task,
            out=out,
            seed=seed,
            network=network,
            jobs=jobs,
            device=str(where),
            command=command_line(),
            tell=say,
            progress=progress,
        )
    reports = {report.about["control"]: report for report in control_reports(finished.records, Rules())}
    verdicts = {label: report.verdict.replace("_", " ") for label, report in reports.items()}
    table = catalogue_table(finished.records, verdicts=verdicts)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
    write_atomically(out / "table.csv", lambda part: part.write_text(table.csv(), encoding="utf-8"))
    show(table)
    for label, report in reports.items():
        console.print(f"{label}: {verdicts[label]}. {report.sentence}", markup=False)
    say(f"The table, the records and the models are in {out}/.")
    say(f"Open {write_study_page(out, finished.records)} to look at it.")
    report_failures(finished.failures)
