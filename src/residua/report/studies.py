"""The results of a study: one line per model as data, and methods side by side with mean, deviation and n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np

from residua.compare import IDI, curve_in, idi, metrics, readings_of
from residua.errors import InputError
from residua.readings import Reading
from residua.record import Record
from residua.report.catalogue import COLUMNS
from residua.report.controls import REFERENCES
from residua.report.table import Table, setting_line

Rows = Sequence[dict[str, Any]]
# Methods that others are compared with are never the best.
COMPARED_WITH = ("Original", "Retrain", "Random")


def study_rows(
    records: Sequence[Record],
    original: str = "Original",
    reference: str = "Retrain",
    last: int | None = None,
    family: str | None = None,
) -> list[dict[str, Any]]:
    """Every number of every model: method, seed, metrics in shares and nats, RTE in seconds.

    Each is compared with Original and the reference of its own setting and seed. IDI sums the `last` so many blocks
    (all that were measured) of a `family` of critics (the first).
    """
    if reference != "Retrain" and not any(record.method.label == reference for record in records):
        labels = ", ".join(dict.fromkeys(record.method.label for record in records))
        raise InputError(f"there is no record of {reference!r}; choose a reference among {labels}")
    groups: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        groups.setdefault(_group(record), {}).setdefault(record.method.label, record)
    several = len({_setting(record) for record in records}) > 1
    rows = []
    for record in records:
        others = groups[_group(record)]
        read = {label: readings_of(others[label]) for label in (original, reference) if label in others}
        own = readings_of(record)
        index = _index(own, read.get(original), read.get(reference), last, family)
        values = metrics(own, original=read.get(original), reference=read.get(reference), index=index).values
        row: dict[str, Any] = {"method": record.method.label, "seed": _seed(record)}
        row |= {"draw": record.seeds["draw"]} if "draw" in record.seeds else {}
        row |= {"setting": setting_line(record).split(", seed ")[0]} if several else {}
        spent = {"RTE": record.seconds["RTE"]} if "RTE" in record.seconds else {}
        rows.append(row | dict(values) | spent)
    return rows


def _index(
    own: Mapping[str, Reading],
    original: Mapping[str, Reading] | None,
    reference: Mapping[str, Reading] | None,
    last: int | None,
    family: str | None,
) -> IDI | None:
    """IDI of other blocks or critics than the first; None leaves it to `metrics`."""
    if last is None and family is None:
        return None
    curves = [curve_in(readings or {}) for readings in (own, original, reference)]
    u, o, r = curves
    if u is None or o is None or r is None:
        return None
    return idi(u, original=o, reference=r, last=last, family=family)


def study_tables(
    records: Sequence[Record],
    reference: str = "Retrain",
    rows: Rows | None = None,
    last: int | None = None,
    family: str | None = None,
) -> list[Table]:
    """A table for each setting. The methods nearest to the reference are marked, ties with the nearest too.

    If you have the `study_rows` of these records already, give them: IDIs take longer than all else together.
    """
    if rows is None:
        rows = study_rows(records, reference=reference, last=last, family=family)
    return [_table(*group, reference) for group in by_setting(records, rows, reference)]


def by_setting(
    records: Sequence[Record], rows: Rows | None = None, reference: str = "Retrain"
) -> list[tuple[list[Record], Rows]]:
    """The records of each task and network with their `study_rows`, in the order in which these come."""
    rows = study_rows(records, reference=reference) if rows is None else rows
    groups: dict[tuple[Any, ...], tuple[list[Record], list[dict[str, Any]]]] = {}
    for record, row in zip(records, rows, strict=True):
        group = groups.setdefault(_setting(record), ([], []))
        group[0].append(record)
        group[1].append(row)
    return list(groups.values())


def _table(records: Sequence[Record], rows: Rows, reference: str) -> Table:
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
    return (*_setting(record), _seed(record))


def _seed(record: Record) -> int:
    """That of its training; records of single measurements have none, and count as one seed."""
    return record.seeds.get("training", 0)


def _setting(record: Record) -> tuple[Any, ...]:
    task, network = record.setting.task, record.setting.network or {}
    return (None if task is None else task.sha256, tuple(sorted((k, str(v)) for k, v in network.items())))


@dataclass(frozen=True)
class MethodCurves:
    """Information per block of each method, mean over its models, and the ceiling H(Y)."""

    blocks: list[int]
    ceiling: float
    lines: dict[str, list[float]]


def method_means(records: Sequence[Record]) -> MethodCurves | None:
    """The curves of all methods that share the blocks of the first; None if fewer than two have one."""
    read: dict[str, list[Mapping[int, float]]] = {}
    ceiling, blocks = 0.0, list[int]()
    for record in records:
        curve = curve_in(readings_of(record))
        if curve is None:
            continue
        blocks = blocks or curve.blocks
        if curve.blocks == blocks:
            ceiling = max(ceiling, curve.ceiling)
            read.setdefault(record.method.label, []).append(curve.information)
    if len(read) < 2:
        return None
    lines = {
        label: [mean(each[block] for each in found) for block in blocks] for label, found in read.items()
    }
    return MethodCurves(blocks, ceiling, lines)


def courses(records: Sequence[Record]) -> dict[str, list[np.ndarray]]:
    """By method, the trajectories (epochs x UA, RA, TA) that its records hold."""
    found: dict[str, list[np.ndarray]] = {}
    for record in records:
        rows = record.arrays.get("trajectory")
        if (
            rows is not None
            and rows.ndim == 2
            and rows.shape[1] == 3
            and len(rows)
            and np.isfinite(rows).all()
        ):
            found.setdefault(record.method.label, []).append(rows)
    return found


def role_of(label: str) -> str | None:
    """Original, references and Random have their own colours everywhere."""
    if label in ("Original", "Random"):
        return label.lower()
    return "reference" if REFERENCES.fullmatch(label) else None
