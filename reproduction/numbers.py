"""Every number of the paper's tables, as data.

`tables.csv` has a row for each number: the LaTeX label of its table, the setting (data set and network), the method,
the quantity, and mean and standard deviation as printed. Accuracies and membership attacks are in per cent, RTE in
minutes; `n=k` is the number of last blocks that IDI sums over, `ref=X` the reference model.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from residua.errors import InputError


@dataclass(frozen=True)
class Number:
    """One number of one table; `std` is None where the paper prints none."""

    table: str
    setting: str
    method: str
    quantity: str
    mean: float
    std: float | None


def table_labels() -> list[str]:
    """The labels of the paper's tables of results, in its order."""
    return list(dict.fromkeys(number.table for number in _numbers()))


def numbers_of(table: str) -> list[Number]:
    """All numbers of one table, by its label with or without `tab:`."""
    label = table if table.startswith("tab:") else f"tab:{table}"
    found = [number for number in _numbers() if number.table == label]
    if not found:
        raise InputError(f"the paper has no table {table!r}; choose one of {', '.join(table_labels())}")
    return found


@cache
def _numbers() -> tuple[Number, ...]:
    text = (Path(__file__).parent / "tables.csv").read_text(encoding="utf-8")
    return tuple(
        Number(
            row["table"],
            row["setting"],
            row["method"],
            row["quantity"],
            float(row["mean"]),
            float(row["std"]) if row["std"] else None,
        )
        for row in csv.DictReader(text.splitlines())
        if _is_number(row["mean"])
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
