"""`residua calibrate`: can the ruler be trusted?"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer

from residua.calibration import PROBLEMS, Calibration, Problem, calibrate
from residua.cli.console import say, show
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.information import entropy
from residua.record import Record
from residua.report import calibration_figure, calibration_table


def calibration(
    out: Annotated[Path, typer.Option(help="The folder for the records, the table and the figure.")] = Path(
        "calibration"
    ),
    repeats: Annotated[int, typer.Option(min=2, help="Fresh draws of each problem.")] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="Only problems of this name; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Problems read side by side.")] = 1,
) -> None:
    """Read features whose mutual information is known exactly: bias, spread, coverage.

    Finished problems are kept in --out and not read again.
    """
    unknown = sorted(set(only or []) - {problem.name for problem in PROBLEMS})
    if unknown:
        names = ", ".join(problem.name for problem in PROBLEMS)
        raise InputError(f"there is no problem {unknown[0]!r}, only {names}; choose one")
    check_place(out / "table.md")
    chosen = [problem for problem in PROBLEMS if not only or problem.name in only]
    waiting = [problem for problem in chosen if not _finished(out, problem, repeats)]
    # Small problems run best on one thread each.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        started = {pool.submit(calibrate, problem, repeats): problem for problem in waiting}
        say(f"{len(waiting)} problems to read, {len(chosen) - len(waiting)} already there")
        for future in as_completed(started):
            found = future.result()
            _record(found, repeats).write(out)
            say(
                f"{found.problem.name}: true {found.truth:.4f}, bias {found.bias:+.4f}, coverage {found.coverage:.2f}"
            )
    records = [Record.read(out / f"{problem.name}.json") for problem in chosen]
    table = calibration_table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
    write_atomically(out / "figure.svg", lambda part: calibration_figure(records, part))
    show(table)
    say(f"Records, table and figure are in {out}/.")


def _one_thread() -> None:
    torch.set_num_threads(1)


def _finished(out: Path, problem: Problem, repeats: int) -> bool:
    path = out / f"{problem.name}.json"
    if not path.exists():
        return False
    record = Record.read(path)
    return (
        record.setting["problem"] == asdict(problem) and record.readings["information"]["repeats"] == repeats
    )


def _record(found: Calibration, repeats: int) -> Record:
    shares = torch.tensor(
        [1 - found.problem.positive, found.problem.positive]
        if found.problem.labels == 2
        else [1 / found.problem.labels] * found.problem.labels,
        dtype=torch.float64,
    )
    return Record(
        name=found.problem.name,
        setting={"problem": asdict(found.problem)},
        method={"label": "mutual_information"},
        seeds={"first": 0, "last": repeats - 1},
        readings={"information": found.readings() | {"ceiling": entropy(shares)}},
        arrays={"values": found.values, "lows": found.lows, "highs": found.highs},
        command=f"residua calibrate --only {found.problem.name} --repeats {repeats}",
    )
