"""Tables: from records to text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from residua.record import Record


@dataclass(frozen=True)
class Table:
    """A title, columns, rows of finished strings, and a note underneath."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", _row(self.columns), _row(["---"] * len(self.columns))]
        lines += [_row(row) for row in self.rows]
        return "\n".join(lines + (["", self.note] if self.note else [])) + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()


def accuracy_table(records: Sequence[Record]) -> Table:
    """UA, RA and TA in per cent, one row a method."""
    rows = []
    for record in records:
        found = record.readings["accuracy"]
        rows.append((record.method["label"], *(f"{100 * found[name]:.1f}" for name in ("UA", "RA", "TA"))))
    return Table(
        title=setting_line(records[0]),
        columns=("Method", "UA %", "RA %", "TA %"),
        rows=tuple(rows),
        note="UA: error on the forgotten examples; RA: accuracy on the retained ones; TA: accuracy on the "
        "test data without the forgotten classes. A good method has Retrain's values, not the highest.",
    )


def setting_line(record: Record) -> str:
    """What the numbers are of: data, network, task, scale and seed."""
    setting = record.setting
    network = setting["network"]
    task = setting["task"]
    forgotten = task["forgotten_classes"]
    what = (
        f"class{'es' if len(forgotten) > 1 else ''} {', '.join(map(str, forgotten))}"
        if forgotten
        else f"{task['splits']['forget']['n']} samples"
    )
    name = network.get("network") or network.get("adopted", "own network")
    size = f" (width {network['width']})" if "width" in network else ""
    seed = f", seed {record.seeds['training']}" if "training" in record.seeds else ""
    return f"{task['dataset']}, {name}{size}, {what} forgotten, {setting['scale']} scale{seed}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
