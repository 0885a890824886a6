"""Tables: from records to text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from residua.errors import printable
from residua.explanations import NEARER, explained, explanations
from residua.readings import Reading
from residua.record import Record, TaskFacts
from residua.text import slug, whole_number

# Columns that a narrow table keeps the longest.
KEPT = ("IDI", "Verdict")


@dataclass(frozen=True)
class Table:
    """A title, columns, rows of finished strings, and a note underneath."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        rows = (self.columns, ["---"] * len(self.columns), *self.rows)
        lines = [f"**{TAG.sub('&lt;', printable(self.title))}**", ""]
        lines += ["| " + " | ".join(map(in_markdown, row)) + " |" for row in rows]
        return "\n".join(lines + (["", self.note] if self.note else [])) + "\n"

    def latex(self) -> str:
        """A tabular of booktabs, with the title as its caption, a label, and the note underneath."""
        lines = [
            r"\begin{table}",
            rf"\caption{{{in_latex(self.title)}}}",
            rf"\label{{tab:{slug(self.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"\toprule",
            " & ".join(map(in_latex, self.columns)) + r" \\",
            r"\midrule",
            *(" & ".join(map(in_latex, row)) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip\footnotesize {in_latex(self.note)}"] if self.note else []),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def fitting(self, width: int) -> Table:
        """The table with as many columns as fit: whole columns are left out, from the right, never digits."""
        columns = list(range(len(self.columns)))
        while len(columns) > 1 and sum(self._least(i) + 3 for i in columns) + 1 > width:
            columns.remove(next((i for i in reversed(columns[1:]) if self.columns[i] not in KEPT), columns[-1]))
        left_out = [name for i, name in enumerate(self.columns) if i not in columns]
        why = [f"Left out for lack of room: {', '.join(left_out)}."] if left_out else []
        rows = tuple(tuple(row[i] for i in columns) for row in self.rows)
        return Table(
            self.title, tuple(self.columns[i] for i in columns), rows, " ".join(filter(None, [*why, self.note]))
        )

    def is_text(self, column: int) -> bool:
        """True if a column holds words, which may be broken at spaces, and not numbers."""
        return column == 0 or any(row[column][:1].isalpha() for row in self.rows)

    def _least(self, column: int) -> int:
        cells = [self.columns[column], *(row[column] for row in self.rows)]
        words = [word for cell in cells for word in cell.split()] if self.is_text(column) else cells
        return max(map(len, words), default=0)

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([in_csv(cell) for cell in row] for row in (self.columns, *self.rows))
        return text.getvalue()


LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$",
        "→": r"$\rightarrow$", "†": r"$\dagger$", **{sign: f"\\{sign}" for sign in "%_&#${}"},
    }
)  # fmt: skip


def in_latex(text: str) -> str:
    """Text that LaTeX prints and does not obey."""
    text = " ".join(printable(text).split()).translate(LATEX)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", text)  # a hyphen is no minus sign


TAG = re.compile("<(?=[A-Za-z/!?])")


def in_markdown(text: str) -> str:
    """A cell of a Markdown table: one line, no cells of its own, and no markup of HTML."""
    line = " ".join(printable(text).split()).replace("\\", "\\\\").replace("|", "\\|")
    return TAG.sub("&lt;", line)


def in_csv(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; numbers stay as they are."""
    text = printable(text)
    formula = text[:1] in ("=", "+", "-", "@", "\t", "\r") and not re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|-", text)
    return f"'{text}" if formula else text


def setting_line(record: Record) -> str:
    """The setting that numbers belong to: data, network, task, scale and seed."""
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


def mean_sd(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation; the mean alone of one value, `none` of no value."""
    if not values:
        return "none"
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def with_interval(value: float, ends: Sequence[float] | None, digits: int = 2) -> str:
    """`0.93 (0.80 to 1.05)`; the value alone where it has no interval."""
    text = f"{value:.{digits}f}"
    return text if ends is None else f"{text} ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})"


def spread(values: Sequence[float]) -> float:
    """Standard deviation; 0 of one value."""
    return stdev(values) if len(values) > 1 else 0.0


# What is told of the better side where it is the reference's and there is none.
UNTOLD = "unknown without a reference"


def metrics_table(readings: Mapping[str, Reading], *, title: str, full: bool = False, reference: bool = True) -> Table:
    """One row per metric, one column per model; per cent where the metric is a fraction.

    Metrics with many parts show the last block, the worst class or the whole only, unless `full`. Without a
    `reference` no side is better where the better one is the reference's.
    """
    names = ordered(readings)
    shown = names if full else headlines(names)
    missing = {name: reading.notes[name] for reading in readings.values() for name in reading.notes if name in shown}
    rows = []
    for name in shown:
        entry = explained(name)
        label = f"{name} %" if entry and entry.unit == "share" else name
        cells = (cell(reading, name) for reading in readings.values())
        rows.append((label, *cells, better_side(name, reference)))
    notes = [f"{name}: {why}." for name, why in missing.items()]
    hidden = len(names) - len(shown)
    if hidden:
        notes.append(f"{hidden} more numbers (blocks, classes, attackers): --json, --csv, or ask for a metric by name.")
    notes.append("What a metric means and cannot see: residua explain NAME.")
    return Table(title, ("Metric", *readings, "Better"), tuple(rows), "\n".join(notes))


def better_side(name: str, reference: bool = True) -> str:
    """The better side of this value, in words: the metric's, or that of a part of it which has another."""
    entry, parts = explained(name), name.split(".")[1:]
    if entry is None:
        return ""
    side = next((words for part, words in entry.better_of if part in parts), entry.better)
    return UNTOLD if side == NEARER and not reference else side


def metrics_data(readings: Mapping[str, Reading]) -> Table:
    """The same as data: every number in full, fractions in [0, 1]; empty where there is none."""
    rows = []
    for name in ordered(readings):
        entry = explained(name)
        cells = (repr(r.values[name]) if name in r.values else "" for r in readings.values())
        rows.append((name, *cells, entry.unit if entry else "", better_side(name)))
    return Table("", ("metric", *readings, "unit", "better"), tuple(rows))


def ordered(readings: Mapping[str, Reading]) -> list[str]:
    """Every name that some model has a value of, or a reason for none, in the order of the explanations."""
    names = dict.fromkeys(name for reading in readings.values() for name in (*reading.values, *reading.notes))
    places = {entry.name: place for place, entry in enumerate(explanations())}
    entries = {name: explained(name) for name in names}
    ranks = {name: (places[entry.name] if entry else len(places), "." in name) for name, entry in entries.items()}
    return sorted(names, key=ranks.__getitem__)


def headlines(names: Sequence[str]) -> list[str]:
    """Of the parts of each metric those that a table shows at first: the last block, the worst class, the whole."""
    parts = {name: "none" if (entry := explained(name)) is None else entry.parts for name in names}
    tails = {name: name.rpartition(".")[2] for name in names}
    last = max((whole_number(tails[name]) or 0 for name in names if parts[name] == "blocks"), default=0)
    shown = {
        "attacker": ("accuracy",),
        "blocks": (str(last),),
        "classes": ("worst",),
        "whole": ("original", "reference"),
    }
    return [
        name
        for name in names
        if tails[name] in shown.get(parts[name], (tails[name],))
        or ("." not in name and parts[name] in ("attacker", "whole"))
    ]


def cell(reading: Reading, name: str) -> str:
    if name not in reading.values:
        return "none"
    value = reading.values[name]
    entry = explained(name)
    if entry and entry.unit == "share":
        return f"{100 * value:.1f}"
    if entry and entry.unit == "mini-batches":
        return f"{value:.0f}"
    return f"{round(value, 3) + 0.0:.3f}"  # never -0.000
