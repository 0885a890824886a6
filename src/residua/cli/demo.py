"""`residua demo`: the main job on the embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli.cells import FULL_STACK, Cell, Setting, run_cells
from residua.cli.console import say, show
from residua.cli.options import SeedOption, command_line
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve
from residua.report import catalogue_table, information_table

# Method, and what its row is called.
ROWS = (
    ("Original", "Original"),
    ("Retrain", "Retrain"),
    ("Retrain", "Retrain again"),
    ("HD", "HD"),
    ("FT", "FT"),
    ("COLA", "COLA"),
    ("Random", "Random"),
)
# By epochs, so that the processes finish together.
LONGEST_FIRST = ("COLA", "Retrain", "FT", "Original", "HD", "Random")


def demo(
    out: Annotated[Path, typer.Option(help="The folder for checkpoints, records and the tables.")] = Path(
        "demo"
    ),
    seed: SeedOption = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Models made side by side, one thread each.")] = 2,
) -> None:
    """Forget class 6 (shirt) of the embedded Fashion-MNIST sample: what models say, and what they know."""
    check_place(out / "table.md")
    say(
        "Forgetting class 6 (shirt) of 6,000 embedded images of clothes. This takes about two minutes on two cores."
    )
    setting = Setting(
        data="fashion-sample",
        forget="class:6",
        scale="tiny",
        weights=out / "models",
        measures=(InformationCurve(), *FULL_STACK),
        command=command_line(),
    )
    cells = [
        Cell(row.lower().replace(" ", "-"), label, row, seed, seed + 1 + place)
        for place, (label, row) in enumerate(ROWS)
    ]
    setting.original(seed).unlink(missing_ok=True)  # a demo makes everything itself
    in_turn = sorted(cells, key=lambda cell: LONGEST_FIRST.index(cell.label))
    made = {record.name: record for record in run_cells(setting, in_turn, jobs)}
    records = [made[cell.name] for cell in cells]
    for record in records:
        record.write(out / "records")
    said, known = catalogue_table(records), information_table(records)
    both = f"{said.markdown()}\n{known.markdown()}"
    write_atomically(out / "table.md", lambda part: part.write_text(both, encoding="utf-8"))
    write_atomically(out / "table.csv", lambda part: part.write_text(said.csv(), encoding="utf-8"))
    show(said)
    show(known)
    say(f"Tables, records and models are in {out}/.")
