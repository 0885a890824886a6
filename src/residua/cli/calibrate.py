"""`residua calibrate`: can the estimator be trusted?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from residua.cli.console import say, show
from residua.cli.options import command_line
from residua.cli.progress import following
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.measure.information.calibration import PROBLEMS
from residua.record import Record
from residua.report import calibration_figure, calibration_table
from residua.study.calibrating import calibrate


def calibration(
    out: Annotated[Path, typer.Option(help="Folder for the records, the table and the figure.")] = Path(
        "calibration"
    ),
    repeats: Annotated[int, typer.Option(min=2, help="Fresh draws of each problem.")] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="Only problems of this name; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Problems read side by side.")] = 1,
) -> None:
    """Read features whose mutual information is known exactly: bias, spread, coverage.

    Finished problems are kept in --out and not read again. The table has every problem whose record is there.
    """
    names = [problem.name for problem in PROBLEMS]
    unknown = sorted(set(only or []) - set(names))
    if unknown:
        raise InputError(f"there is no problem {unknown[0]!r}, only {', '.join(names)}; choose one")
    check_place(out / "table.md")
    chosen = [problem for problem in PROBLEMS if not only or problem.name in only]
    with following() as progress:
        calibrate(
            chosen, out=out, repeats=repeats, jobs=jobs, command=command_line(), tell=say, progress=progress
        )
    records = _there(out)
    table = calibration_table(records)
    commands = dict.fromkeys(record.command for record in records)
    text = "\n".join([table.markdown(), *(f"`{command}`\n" for command in commands)])
    write_atomically(out / "table.md", lambda part: part.write_text(text, encoding="utf-8"))
    write_atomically(out / "figure.svg", lambda part: calibration_figure(records, part))
    show(table)
    say(f"Records, table and figure are in {out}/.")


def _there(folder: Path) -> list[Record]:
    """The records of problems as they are today, in their order."""
    places = {problem: folder / f"{problem.name}.json" for problem in PROBLEMS}
    found = {problem: Record.read(place) for problem, place in places.items() if place.exists()}
    return [record for problem, record in found.items() if record.setting.problem == asdict(problem)]
