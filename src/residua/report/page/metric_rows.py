"""The metrics of an audit as rows of a page: few, each explained in place, the others one click away."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from residua.compare.explanations import explained
from residua.explaining import Explanation
from residua.readings import Reading
from residua.report.audit_data import AuditReport, references_in, roles_in
from residua.report.metrics import better_side, cell, headlines, ordered

# What stands in the open table.
FEW = ("UA", "RA", "TA", "E-MIA", "JSD", "recovery", "IDI")


@dataclass(frozen=True)
class MetricRow:
    """A metric: its name and title, the text and number of each column, the better side, what explains it, and notes."""

    name: str
    title: str
    unit: str
    cells: tuple[tuple[str, float | None], ...]
    better: str
    entry: Explanation | None
    notes: tuple[str, ...]


def columns(report: AuditReport) -> list[str]:
    """Unlearned, Original, what they are compared with."""
    zeros = references_in(report.metrics)
    others = [role.capitalize() for role in roles_in(report.metrics) if role not in zeros]
    if not zeros:
        return others
    return [*others[:2], "Reference" if len(zeros) == 1 else f"{len(zeros)} references", *others[2:]]


def metric_rows(report: AuditReport) -> tuple[list[MetricRow], list[MetricRow]]:
    """The few, and the others."""
    found = {
        role: Reading(report.metrics[role], notes=report.notes.get(role, {}))
        for role in roles_in(report.metrics)
    }
    rows = [_row(name, found, report.against != "none") for name in headlines(ordered(found))]
    few = [row for name in FEW for row in rows if row.name == name]
    return few, [row for row in rows if row.name not in FEW]


def _row(name: str, found: dict[str, Reading], reference: bool) -> MetricRow:
    entry, zeros = explained(name), references_in(found)
    cells: list[tuple[str, float | None]] = []
    for role, reading in found.items():
        if role not in zeros:
            cells.append((cell(reading, name), reading.values.get(name)))
        elif role == zeros[0]:
            cells.append(_together([found[each] for each in zeros], name))
    part = name.partition(".")[2]
    title = entry.title if entry else name
    unit = "%" if entry and entry.unit == "share" else entry.unit if entry and entry.unit != "number" else ""
    notes = dict.fromkeys(reading.notes[name] for reading in found.values() if name in reading.notes)
    return MetricRow(
        name=name,
        title=f"{title}: {part}" if part else title,
        unit=unit,
        cells=tuple(cells),
        better=better_side(name, reference),
        entry=entry,
        notes=tuple(notes),
    )


def _together(readings: list[Reading], name: str) -> tuple[str, float | None]:
    """Several references in one cell: the mean, and from the least to the largest."""
    known = [reading for reading in readings if name in reading.values]
    if len(known) < 2:
        return cell((known or readings)[0], name), known[0].values[name] if known else None
    middle = mean(reading.values[name] for reading in known)
    ends = sorted(known, key=lambda reading: reading.values[name])
    low, high = cell(ends[0], name), cell(ends[-1], name)
    text = cell(Reading({name: middle}), name)
    return (text if low == high else f"{text} ({low} to {high})"), middle
