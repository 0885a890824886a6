"""The results of a study: one line per model as data, and methods side by side with mean, deviation and n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from residua.compare import metrics, readings_of
from residua.record import Record
from residua.report.catalogue import COLUMNS
from residua.report.table import Table, setting_line

# Methods that others are compared with are never the best.
COMPARED_WITH = ("Original", "Retrain", "Random")


def study_rows(
    records: Sequence[Record], original: str = "Original", reference: str = "Retrain"
) -> list[dict[str, Any]]:
    """Every number of every model: method, seed, metrics in shares and nats, RTE in seconds.

    Each is compared with Original and the reference of its own setting and seed.
    """
    groups: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        groups.setdefault(_group(record), {}).setdefault(record.method.label, record)
    several = len({_setting(record) for record in records}) > 1
    rows = []
    for record in records:
        others = groups[_group(record)]
        read = {label: readings_of(others[label]) for label in (original, reference) if label in others}
        values = metrics(
            readings_of(record), original=read.get(original), reference=read.get(reference)
        ).values
        row: dict[str, Any] = {"method": record.method.label, "seed": record.seeds["training"]}
        row |= {"draw": record.seeds["draw"]} if "draw" in record.seeds else {}
        row |= {"setting": setting_line(record).split(", seed ")[0]} if several else {}
        rows.append(row | dict(values) | {"RTE": record.seconds["RTE"]})
    return rows


def study_tables(records: Sequence[Record], reference: str = "Retrain") -> list[Table]:
    """A table for each setting. The methods nearest to the reference are marked, ties with the nearest too."""
    return [_table(group, reference) for group in by_setting(records)]


def by_setting(records: Sequence[Record]) -> list[list[Record]]:
    """The records of each task and network, in the order in which these come."""
    settings = dict.fromkeys(_setting(record) for record in records)
    return [[record for record in records if _setting(record) == each] for each in settings]


def _table(records: Sequence[Record], reference: str) -> Table:
    rows = study_rows(records, reference=reference)
    labels = list(dict.fromkeys(row["method"] for row in rows))
    shown = [column for column in (*COLUMNS, ("RTE s", "RTE", 1, 1)) if any(column[1] in row for row in rows)]
    cells = {}
    for _, name, factor, digits in shown:
        values = {
            m: [factor * row[name] for row in rows if row["method"] == m and name in row] for m in labels
        }
        best = _nearest(values, reference) if name != "RTE" else set()
        for label in labels:
            cells[label, name] = _cell(values[label], digits) + ("*" if label in best else "")
    counts = {label: sum(row["method"] == label for row in rows) for label in labels}
    return Table(
        title=setting_line(records[0]).split(", seed ")[0],
        columns=("Method", *(column[0] for column in shown), "n"),
        rows=tuple(
            (label, *(cells[label, name] for _, name, *_ in shown), str(counts[label])) for label in labels
        ),
        note=f"Mean ± standard deviation of n models. *: nearest to {reference}'s mean, or within one standard error "
        f"of the nearest. A good method has {reference}'s values, not the highest.",
    )


def _nearest(values: Mapping[str, Sequence[float]], reference: str) -> set[str]:
    """The methods whose mean is nearest to the reference's, and those within one standard error of them."""
    if not values.get(reference):
        return set()
    aim = mean(values[reference])
    gaps = {label: abs(mean(v) - aim) for label, v in values.items() if v and label not in COMPARED_WITH}
    if not gaps:
        return set()
    best = min(gaps, key=lambda label: gaps[label])
    return {
        label
        for label in gaps
        if gaps[label] - gaps[best] <= max(_error(values[label]), _error(values[best]), 1e-12)
    }


def _error(values: Sequence[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _cell(values: Sequence[float], digits: int) -> str:
    if not values:
        return "none"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _group(record: Record) -> tuple[Any, ...]:
    return (*_setting(record), record.seeds["training"])


def _setting(record: Record) -> tuple[Any, ...]:
    task, network = record.setting.task, record.setting.network or {}
    return (None if task is None else task.sha256, tuple(sorted((k, str(v)) for k, v in network.items())))
