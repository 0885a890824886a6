"""Tables: from records to text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from residua.facts import TaskFacts
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

    def latex(self) -> str:
        """A tabular of booktabs, with the title as its caption."""
        lines = [
            r"\begin{table}",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"\toprule",
            " & ".join(map(_latex, self.columns)) + r" \\",
            r"\midrule",
            *(" & ".join(map(_latex, row)) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()


def _latex(text: str) -> str:
    for sign, name in (
        ("\\", r"\textbackslash{}"),
        ("%", r"\%"),
        ("_", r"\_"),
        ("&", r"\&"),
        ("±", r"$\pm$"),
        ("→", r"$\rightarrow$"),
    ):
        text = text.replace(sign, name)
    return text


def accuracy_table(records: Sequence[Record]) -> Table:
    """UA, RA and TA in per cent, one row per method."""
    rows = []
    for record in records:
        reading = record.readings["accuracy"]
        rows.append((record.method.label, *(f"{100 * reading[name]:.1f}" for name in ("UA", "RA", "TA"))))
    return Table(
        title=setting_line(records[0]),
        columns=("Method", "UA %", "RA %", "TA %"),
        rows=tuple(rows),
        note="UA: error on the forgotten examples; RA: accuracy on the retained ones; TA: accuracy on the "
        "test data without the forgotten classes. A good method has Retrain's values, not the highest.",
    )


def setting_line(record: Record) -> str:
    """What the numbers belong to: data, network, task, scale and seed."""
    network, task = record.setting.network or {}, record.setting.task or TaskFacts(splits={})
    forgotten = task.forgotten_classes
    what = (
        f"class{'es' if len(forgotten) > 1 else ''} {', '.join(map(str, forgotten))}"
        if forgotten
        else f"{task.size('forget')} samples"
    )
    name = network.get("network") or network.get("adopted", "own network")
    size = f" (width {network['width']})" if "width" in network else ""
    seed = f", seed {record.seeds['training']}" if "training" in record.seeds else ""
    return f"{task.dataset}, {name}{size}, {what} forgotten, {record.setting.scale} scale{seed}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
