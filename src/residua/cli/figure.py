"""`residua figure`: a figure of a paper, from what is saved of audits and studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.audits.verifying import read_records, read_report
from residua.cli.console import out as console
from residua.cli.report import records_in
from residua.errors import InputError
from residua.files import check_place
from residua.record import Record
from residua.report import AuditReport
from residua.report.figures.kinds import Against, Kind, save_figure


def figure(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="curves (information per block), idi, tsne, recovery (against IDI), frontier (IDI against --against) or "
            "trajectory (epoch by epoch).",
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="The folder of an audit or a study, or records (.json)."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write: .pdf, .svg or .png.")],
    against: Annotated[Against, typer.Option(help="The other axis of a frontier: TA or run time.")] = "TA",
) -> None:
    """Draw one figure from saved files, as PDF, SVG or PNG; nothing is measured.

    An audit gives curves, idi and tsne of its models; a study, or records, give methods side by side.
    """
    check_place(out)
    report, records = gathered(files)
    save_figure(kind, report, records, out, against)
    console.print(str(out), markup=False, soft_wrap=True)


def gathered(files: list[Path]) -> tuple[AuditReport | None, dict[str, Record]]:
    """The report and the records of one audit, or any records by name."""
    folders = [path.parent if path.name == "report.json" else path for path in files]
    audits = [folder for folder in folders if (folder / "report.json").is_file()]
    if audits and len(files) > 1:
        raise InputError(f"{audits[0]} is an audit, which has figures of its own; give it alone")
    if audits:
        report, _ = read_report(audits[0])
        return report, read_records(audits[0], report)
    records: dict[str, Record] = {}
    for path in folders:
        for record in records_in(path) if path.is_dir() else [Record.read(path)]:
            name = record.name
            while name in records:
                name += "+"
            records[name] = record
    return None, records
