"""`residua controls`: verdicts on models whose truth is known, over seeds."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from residua.audit import BESIDE, NEEDED
from residua.cheats import CHEATS
from residua.cli.cells import Cell, Setting, file_name, kept_in, records_of
from residua.cli.console import say, show
from residua.cli.options import DataOption, ForgetOption, command_line, open_task
from residua.compare import Rules
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve
from residua.recipes import Scale
from residua.report import control_reports, fooled_table, verdict_table

# Far from Original's seeds, and from each other: the two Retrains must be independent.
REFERENCE_SEEDS, SECOND_SEEDS = 1000, 2000


def controls(
    data: DataOption = "fashion-sample",
    forget: ForgetOption = "class:6",
    scale: Annotated[Scale, typer.Option(help="Whose settings train the models.")] = "tiny",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ...: each has its own models.")] = 20,
    margin: Annotated[
        float, typer.Option(help="How far from the reference's 0 an IDI may lie.")
    ] = Rules.margin,
    out: Annotated[Path, typer.Option(help="The folder for records and tables.")] = Path("controls"),
    weights: Annotated[
        Path | None, typer.Option(help="Keep the models in this folder; without it they are not kept.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Models made side by side, one thread each.")] = 2,
) -> None:
    """Audit Original, HD, a second Retrain, Random and three cheats, and count the verdicts.

    --out gets the tables, the report of every audit, and under evidence/ what was measured, which is much
    larger. What is there already is not made again, so a run that was stopped goes on.
    """
    rules = Rules(margin=margin)
    check_place(out / "table.md")
    if weights:
        check_place(weights / "original.safetensors")
    if open_task(data, forget).scenario != "class":
        raise InputError(f"--forget {forget} forgets samples, but the cheats hide classes; write class:6")
    cells = [cell for seed in range(seeds) for cell in _cells(seed)]
    with kept_in(weights) as folder:
        setting = Setting(
            data=data,
            forget=forget,
            scale=scale,
            weights=folder,
            measures=(InformationCurve(), *NEEDED, *BESIDE),
            command=command_line(),
        )
        reports = control_reports(records_of(setting, cells, out / "evidence", jobs), rules)
    for report in reports:
        name = f"seed{report.about['seed']}-{file_name(report.about['control'])}.json"
        data = f"{report.model_dump_json(indent=1)}\n"
        write_atomically(out / name, functools.partial(Path.write_text, data=data, encoding="utf-8"))
    tables = [verdict_table(reports), fooled_table(reports)]
    text = "\n".join(table.markdown() for table in tables)
    write_atomically(out / "table.md", lambda part: part.write_text(text, "utf-8"))
    for table in tables:
        show(table)
    say(f"Tables and reports are in {out}/.")


def _cells(seed: int) -> list[Cell]:
    drawn = dict.fromkeys(("Original", "Retrain", "HD", "Random", *CHEATS), REFERENCE_SEEDS + seed)
    drawn["Second Retrain"] = SECOND_SEEDS + seed
    return [
        Cell(f"seed{seed}-{file_name(row)}", row.removeprefix("Second "), row, seed, of_row)
        for row, of_row in drawn.items()
    ]
