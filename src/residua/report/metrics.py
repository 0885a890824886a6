"""Metrics of several models side by side, with the better direction in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from residua.compare.explanations import explained, explanations
from residua.explaining import NEARER
from residua.readings import Reading
from residua.report.table import Table

# What is told of the better side where it is the reference's and there is none.
UNTOLD = "unknown without a reference"


def metrics_table(
    readings: Mapping[str, Reading], *, title: str, full: bool = False, reference: bool = True
) -> Table:
    """One row per metric, one column per model; per cent where the metric is a share.

    Metrics with many parts show the last block, the worst class or the whole only, unless `full`. Without a
    `reference` no side is better where the better one is the reference's.
    """
    names = ordered(readings)
    shown = names if full else headlines(names)
    missing = {
        name: reading.notes[name] for reading in readings.values() for name in reading.notes if name in shown
    }
    rows = []
    for name in shown:
        entry = explained(name)
        label = f"{name} %" if entry and entry.unit == "share" else name
        cells = (cell(reading, name) for reading in readings.values())
        rows.append((label, *cells, better_side(name, reference)))
    notes = [f"{name}: {why}." for name, why in missing.items()]
    hidden = len(names) - len(shown)
    if hidden:
        notes.append(
            f"{hidden} more numbers (blocks, classes, attackers): --json, --csv, or ask for a metric by name."
        )
    notes.append("What a metric means and cannot see: residua explain NAME.")
    return Table(title, ("Metric", *readings, "Better"), tuple(rows), "\n".join(notes))


def better_side(name: str, reference: bool = True) -> str:
    """Which side of this value is better, in words."""
    entry = explained(name)
    side = entry.side(name) if entry else ""
    return UNTOLD if side == NEARER and not reference else side


def metrics_data(readings: Mapping[str, Reading]) -> Table:
    """The same as data: every number in full, shares in [0, 1]; empty where there is none."""
    rows = []
    for name in ordered(readings):
        entry = explained(name)
        cells = (repr(r.values[name]) if name in r.values else "" for r in readings.values())
        rows.append((name, *cells, entry.unit if entry else "", entry.side(name) if entry else ""))
    return Table("", ("metric", *readings, "unit", "better"), tuple(rows))


def ordered(readings: Mapping[str, Reading]) -> list[str]:
    """Every name that some model has a value of, or a reason for none, in the order of the explanations."""
    names = dict.fromkeys(name for reading in readings.values() for name in (*reading.values, *reading.notes))
    places = {entry.name: place for place, entry in enumerate(explanations())}

    def place(name: str) -> tuple[int, bool]:
        entry = explained(name)
        return (places[entry.name] if entry else len(places)), "." in name

    return sorted(names, key=place)


def headlines(names: Sequence[str]) -> list[str]:
    blocks = [
        int(name.rpartition(".")[2]) for name in names if _parts(name) == "blocks" and name[-1].isdigit()
    ]
    return [name for name in names if _is_headline(name, max(blocks, default=0))]


def _is_headline(name: str, last: int) -> bool:
    tail = name.rpartition(".")[2]
    match _parts(name):
        case "attacker":
            return "." not in name or tail == "accuracy"
        case "blocks":
            return tail == str(last)
        case "classes":
            return tail == "worst"
        case "whole":
            return "." not in name or tail in ("original", "reference")
    return True


def _parts(name: str) -> str:
    entry = explained(name)
    return entry.parts if entry else "none"


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
