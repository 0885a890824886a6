"""`residua export`: a saved audit or study as a page, a model card, a statement, JUnit XML or a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from residua.audits.attesting import checked, statement
from residua.audits.verifying import read_records, read_report, reports_in
from residua.cli import options as opt
from residua.cli.console import echo, write_text
from residua.cli.inputs import records_in
from residua.errors import InputError
from residua.files import check_place
from residua.record import Record
from residua.report.audit import AuditReport
from residua.report.figures import Against, Kind, save_figure
from residua.report.junit import junit, measuring_seconds
from residua.report.pages import PAGE, audit_page, audits_in, controls_page, read_thumbnails, study_page
from residua.report.text import card

Format = Literal["page", "card", "statement", "junit", "figure"]
figure = opt.panel("Figure")


def export(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Folder of an audit, a study or controls. Figures also take several folders or records (.json).",
        ),
    ],
    form: Annotated[
        Format,
        opt.output(
            "page: report.html of any folder. card: section of a model card, in Markdown. statement: "
            "unsigned in-toto statement. junit: JUnit XML. figure: PDF, SVG or PNG.",
            "--as",
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        opt.output("File to write.", metavar="FILE", show_default="report.html in DIR for a page; others are printed"),
    ] = None,
    kind: Annotated[
        Kind | None,
        figure(
            "Figure to draw: curves (information per block), idi, tsne, recovery (against IDI), frontier "
            "(IDI against --against) or trajectory (epoch by epoch).",
            show_default="curves",
        ),
    ] = None,
    against: Annotated[
        Against | None, figure("Other axis of a frontier: test accuracy or run time.", show_default="TA")
    ] = None,
) -> None:
    """Export a saved audit or study as a page, a model card, a statement, JUnit XML or a figure; nothing is measured.

    A page is one file that opens anywhere, loads nothing and prints well. Cards, statements and JUnit XML are of audits
    whose report is checked first: one that does not follow from its records is refused. Signing a statement is left to
    cosign and the like. Figures of an audit show its models; figures of a study, or of records, compare methods.

    Example: residua export audit/ --as card --out card.md
    """
    if form == "figure":
        if out is None:
            raise InputError("a figure is a file; give --out FILE.pdf (or .svg, .png)")
        check_place(out)
        save_figure(kind or "curves", *_for_figure(folders), out, against or "TA")
        echo(str(out))
        return
    for option, value in (("--kind", kind), ("--against", against)):
        if value is not None:
            raise InputError(f"{option} is for figures; add --as figure, or leave it out")
    if len(folders) > 1:
        raise InputError(f"{len(folders)} folders were given; only figures compare several, so give one")
    folder = folders[0]
    if form == "page":
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder; give the folder of an audit, a study or controls")
        out = out or folder / PAGE
        check_place(out)
        write_text(out, _page(folder))
        echo(str(out))
        return
    if out is None:
        echo(_passed_on(folder, form), end="")
        return
    check_place(out)
    write_text(out, _passed_on(folder, form))


def _passed_on(folder: Path, form: Format) -> str:
    """A text for others than the auditor; made only of a report that follows from its records."""
    if form == "statement":
        return json.dumps(statement(folder), indent=1, ensure_ascii=False) + "\n"
    report, digest = checked(folder)
    if form == "card":
        return card(report, digest)
    return junit(report, measuring_seconds(read_records(folder, report)))


def _page(folder: Path) -> str:
    if (folder / "report.json").exists():
        report = read_report(folder)
        return audit_page(report, read_records(folder, report), read_thumbnails(folder))
    if reports := reports_in(folder):
        return controls_page(reports)
    records = records_in(folder)
    links = audits_in(folder, {record.method.label for record in records})
    return study_page(records, folder.absolute().name, links=links)


def _for_figure(files: list[Path]) -> tuple[AuditReport | None, dict[str, Record]]:
    """The report and the records of one audit, or any records by name."""
    folders = [path.parent if path.name == "report.json" else path for path in files]
    audits = [folder for folder in folders if (folder / "report.json").is_file()]
    if audits and len(files) > 1:
        raise InputError(f"{audits[0]} is an audit, which has figures of its own; give it alone")
    if audits:
        report = read_report(audits[0])
        return report, read_records(audits[0], report)
    records: dict[str, Record] = {}
    for path in folders:
        for record in records_in(path) if path.is_dir() else [Record.read(path)]:
            name = record.name
            while name in records:
                name += "+"
            records[name] = record
    return None, records
