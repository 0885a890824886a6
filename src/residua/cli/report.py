"""`residua report`: the page of an audit, a study or controls, from what is saved of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from residua.audits.pages import PAGE, write_page
from residua.audits.reports import reports_in
from residua.audits.verifying import read_records, read_report
from residua.cli.console import out as console
from residua.cli.console import say
from residua.errors import InputError, first_line
from residua.files import check_place, read_text, write_atomically
from residua.record import Record
from residua.report import AuditReport

if TYPE_CHECKING:
    from residua.report.studies import Rows
    from residua.study.conducting import Finished

# Files beside records and reports that are neither.
OTHERS = ("keys.json", "study.json")


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of an audit, a study, a catalogue or controls.")
    ],
) -> None:
    """Write report.html again from the saved records: one file that opens anywhere, loads nothing and prints well.

    Nothing is measured. The folder is one that `audit`, `study run`, `catalogue`, `controls` or `demo` wrote, or any
    folder of records.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder of an audit, a study or controls")
    check_place(folder / PAGE)
    if (folder / "report.json").exists():
        found, _ = read_report(folder)
        path = write_page(folder, found, read_records(folder, found))
    elif reports := reports_in(folder):
        path = write_controls_page(folder, reports)
    else:
        path = write_study_page(folder, records_in(folder))
    console.print(str(path), markup=False, soft_wrap=True)


def write_study_page(folder: Path, records: Sequence[Record], rows: Rows | None = None) -> Path:
    from residua.report.page import study_page

    return _write(folder, study_page(records, folder.absolute().name, rows))


def write_controls_page(folder: Path, reports: Sequence[AuditReport]) -> Path:
    from residua.report.page import controls_page

    return _write(folder, controls_page(reports))


def tell_page(folder: Path, finished: Finished, rows: Rows | None = None) -> None:
    """Write the page of a study that has just ended, unless nothing has changed since, and say where it is."""
    if finished.computed or not _is_current(folder):
        write_study_page(folder, finished.records, rows)
    say(f"Open {folder / PAGE} to look at it.")


def _is_current(folder: Path) -> bool:
    """Whether the page is newer than the study's definition and every record; a run that finds all leaves those alone."""
    try:
        drawn = (folder / PAGE).stat().st_mtime_ns
        return all(
            path.stat().st_mtime_ns < drawn
            for path in (folder / "study.json", *folder.glob("records/*.json"))
        )
    except OSError:
        return False


def _write(folder: Path, text: str) -> Path:
    write_atomically(folder / PAGE, lambda part: part.write_text(text, "utf-8"))
    return folder / PAGE


def records_in(folder: Path) -> list[Record]:
    """The records of a study in its own order, or those that lie in the folder."""
    inside = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in inside.glob("[!.]*.json") if path.name not in OTHERS)
    if not paths:
        raise InputError(
            f"{folder} holds no records yet; run the study first, or give the folder of an audit or study"
        )
    place = {each: number for number, each in enumerate(_order(folder / "keys.json"))}
    paths.sort(key=lambda path: place.get(path.stem, len(place)))
    return [Record.read(path) for path in paths if not place or path.stem in place]


def _order(path: Path) -> list[str]:
    """The rows of a study in its own order; nothing where the folder holds none."""
    if not path.exists():
        return []
    try:
        return list(dict(json.loads(read_text(path))))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({first_line(error)}); run the study again") from error
