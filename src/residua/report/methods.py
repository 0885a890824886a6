"""Methods side by side: one summary of the records, and the tables that are made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from residua import roles
from residua.compare import IDI, curve_in, curve_of, idi, metrics, order, readings_of
from residua.errors import InputError
from residua.readings import Reading
from residua.record import Record, ShadowFacts
from residua.report.table import Table, mean_sd, setting_line, spread, with_interval

# Column, name of the metric, factor (100: in per cent), digits.
COLUMNS = (
    ("UA %", "UA", 100, 1),
    ("RA %", "RA", 100, 1),
    ("TA %", "TA", 100, 1),
    ("MIA %", "E-MIA", 100, 1),
    ("JSD", "JSD", 1, 3),
    ("recovery %", "recovery", 100, 1),
    ("IDI", "IDI", 1, 2),
    ("RTE s", "RTE", 1, 1),
    ("CPU s", "RTE.cpu", 1, 1),
)
# Cells of metrics that were measured and have no value.
WITHOUT_VALUE = {"E-MIA": "at chance", "IDI": "undetermined"}
# Methods that others are compared with are never the best.
COMPARED_WITH = ("Original", "Retrain", "Random")
# Behind the name of a method from a plug-in.
OWN = " †"
Rows = Sequence[dict[str, Any]]
Values = dict[str, dict[str, list[float]]]


def summary(
    records: Sequence[Record],
    original: str = "Original",
    reference: str = "Retrain",
    last: int | None = None,
    family: str | None = None,
) -> list[dict[str, Any]]:
    """Every number of every model: the rows behind every table and figure of methods.

    A row holds method, seed, metrics as fractions and nats, and RTE in seconds. Each model is compared with Original
    and the reference of its own setting and seed. A metric that was measured and has no value is None.

    Args:
        records: Records of a study, or of any folder.
        original: Label of the model at IDI 1.
        reference: Label of the model at IDI 0.
        last: Number of last blocks that IDI sums; all that were measured by default.
        family: Critics whose terms are taken; the first that were measured by default.
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
        found = metrics(own, original=read.get(original), reference=read.get(reference), index=index)
        row: dict[str, Any] = {"method": record.method.label, "seed": _seed(record)}
        row |= {"draw": record.seeds["draw"]} if "draw" in record.seeds else {}
        row |= {"setting": setting_line(record).split(", seed ")[0]} if several else {}
        spent = {name: record.seconds[name] for name in ("RTE", "RTE.cpu") if name in record.seconds}
        rows.append(row | dict.fromkeys(found.notes) | dict(found.values) | spent)
    return rows


def by_method(rows: Rows) -> Values:
    """The values of each column by method and metric, in the unit of the column."""
    found: Values = {row["method"]: {name: [] for _, name, *_ in COLUMNS} for row in rows}
    for row in rows:
        for _, name, factor, _ in COLUMNS:
            if row.get(name) is not None:
                found[row["method"]][name].append(factor * row[name])
    return found


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
    u, o, r = (curve_in(readings or {}) for readings in (own, original, reference))
    if u is None or o is None or r is None:
        return None
    return idi(u, original=o, reference=r, last=last, family=family)


def study_tables(
    records: Sequence[Record],
    reference: str = "Retrain",
    rows: Rows | None = None,
    verdicts: Mapping[str, str] | None = None,
    last: int | None = None,
    family: str | None = None,
    own: Collection[str] = (),
) -> list[Table]:
    """A table of methods for each setting; the methods nearest to the reference are marked, and ties with them.

    Args:
        records: Records of a study, or of any folder.
        reference: Label of the model at IDI 0.
        rows: The `summary` of these records, if it is there: IDIs take longer than all else together.
        verdicts: Words by label, for a last column.
        last: As in `summary`.
        family: As in `summary`.
        own: Labels of the user's own methods, which are marked.
    """
    if rows is None:
        rows = summary(records, reference=reference, last=last, family=family)
    return [_method_table(*group, reference, verdicts, own) for group in by_setting(records, rows)]


def by_setting(records: Sequence[Record], rows: Rows | None = None) -> list[tuple[list[Record], Rows]]:
    """The records of each task and network with their rows of the `summary`, in the order in which these come."""
    rows = summary(records) if rows is None else rows
    groups: dict[tuple[Any, ...], tuple[list[Record], list[dict[str, Any]]]] = {}
    for record, row in zip(records, rows, strict=True):
        group = groups.setdefault(_setting(record), ([], []))
        group[0].append(record)
        group[1].append(row)
    return list(groups.values())


def _method_table(
    records: Sequence[Record], rows: Rows, reference: str, verdicts: Mapping[str, str] | None, own: Collection[str]
) -> Table:
    values, counts = by_method(rows), Counter(row["method"] for row in rows)
    several = max(counts.values()) > 1
    shown = [column for column in COLUMNS if any(column[1] in row for row in rows)]
    best = {
        name: _nearest({label: found[name] for label, found in values.items()}, reference)
        for _, name, *_ in shown
        if not name.startswith("RTE") and several
    }
    lines = []
    for label, found in values.items():
        mine = [row for row in rows if row["method"] == label]
        cells = (
            method_cell(mine, found[name], name, digits) + ("*" if label in best.get(name, ()) else "")
            for _, name, _, digits in shown
        )
        last = () if verdicts is None else (verdicts.get(label, ""),)
        lines.append((label + OWN * (label in own), *cells, str(counts[label]), *last))
    marked = (
        f"Mean ± standard deviation of n models. *: nearest to {reference}'s mean, or within one standard error of "
        "the nearest. "
    )
    judged = () if verdicts is None else ("Verdict",)
    loads = [record.seconds["RTE.load"] for record in records if "RTE.load" in record.seconds]
    return Table(
        title=setting_line(records[0]).split(", seed ")[0],
        columns=("Method", *(column[0] for column in shown), "n", *judged),
        rows=tuple(lines),
        note=(marked if several else "")
        + (f"{OWN.strip()}: a method of your own. " if set(own) & set(values) else "")
        + f"A good method has {reference}'s values, not the highest. IDI: 1 is what Original knows, 0 what "
        f"{reference} knows. MIA: fraction of the forgotten that an attacker calls members, where it is better than "
        f"chance. JSD: distance of the outputs from {reference}'s on the forgotten. Recovery: accuracy on forgotten test "
        "data after a new head was trained. RTE: run time of the unlearning, under whatever else ran; CPU: its processor "
        "time, all threads, which other work hardly changes."
        + (f" Load of the machine: {min(loads):.1f} to {max(loads):.1f}." if loads else ""),
    )


def method_cell(rows: Rows, values: Sequence[float], name: str, digits: int) -> str:
    """Mean and standard deviation, or a single value with its interval, in the column's unit; a word where there is none."""
    factor = next((each for _, own, each, _ in COLUMNS if own == name), 1)
    given = (row.get(end) for row in rows for end in (f"{name}.low", f"{name}.high"))
    ends = [factor * end for end in given if end is not None]
    if len(rows) == len(values) == 1 and len(ends) == 2:
        return with_interval(values[0], ends, digits)
    without = sum(name in row and row[name] is None for row in rows)
    if without and not values:
        return WITHOUT_VALUE.get(name, "none")
    return mean_sd(values, digits) + (f" ({without} {WITHOUT_VALUE.get(name, 'none')})" if without else "")


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
        if gaps[label] - gaps[best]
        <= max(*(spread(values[each]) / len(values[each]) ** 0.5 for each in (label, best)), 1e-12)
    }


def _group(record: Record) -> tuple[Any, ...]:
    return (*_setting(record), _seed(record))


def _seed(record: Record) -> int:
    """Seed of its training; records of single measurements have none, and count as one seed."""
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
    lines = {label: [mean(each[block] for each in found) for block in blocks] for label, found in read.items()}
    return MethodCurves(blocks, ceiling, lines)


def courses(records: Sequence[Record]) -> dict[str, np.ndarray]:
    """By method, the mean trajectory (epochs x UA, RA, TA) of its records, as far as the shortest goes."""
    found: dict[str, list[np.ndarray]] = {}
    for record in records:
        rows = record.arrays.get("trajectory", np.empty(0))
        if rows.ndim == 2 and rows.shape[1] == 3 and len(rows) and np.isfinite(rows).all():
            found.setdefault(record.method.label, []).append(rows)
    return {label: np.mean([run[: min(map(len, runs))] for run in runs], axis=0) for label, runs in found.items()}


def role_of(label: str) -> str | None:
    """The role of Original, references and Random, which have their own colours everywhere; None for others."""
    role = roles.role_of(label)
    return None if role == "method" else role


def information_table(
    records: Sequence[Record],
    *,
    original: str = "Original",
    reference: str = "Retrain",
    last: int | None = None,
    family: str | None = None,
) -> Table:
    """Accuracies (where they were measured) and what each model's blocks know, compared with two of the records.

    `family` reads another family of critics than the first that was measured.
    """
    curves = {record.method.label: curve_of(record) for record in records}
    blocks = curves[original].blocks
    with_accuracy = "accuracy" in records[0].readings
    rows = []
    for record in records:
        curve = curves[record.method.label]
        index = idi(curve, original=curves[original], reference=curves[reference], last=last, family=family)
        rows.append(
            (
                record.method.label,
                *(_accuracies(record.readings["accuracy"]) if with_accuracy else ()),
                *(f"{curve.terms([block], family).mean():.3f}" for block in curve.blocks),
                *(f"{100 * curve.accuracy[block]:.1f}" for block in curve.blocks),
                f"{index.id_unlearned:.3f}",
                *_index_cells(index),
            )
        )
    ceiling = curves[original].ceiling
    own = curves[original].about.get("measure", {}).get("protocol") == "paper"
    seen = "that it was fitted on" if own else "that it has not seen"
    return Table(
        title=f"{setting_line(records[0])}; critics: {family or curves[original].families[0]}",
        columns=(
            "Method",
            *(ACCURACIES if with_accuracy else ()),
            *(f"I block {block}" for block in blocks),
            *(f"accuracy % block {block}" for block in blocks),
            "ID nats",
            "IDI",
            "95 % interval",
            "sum of positive parts",
            "largest block",
        ),
        rows=tuple(rows),
        note=f"I: nats that a block still holds about what was to be forgotten, at most H(Y) = {ceiling:.3f}; accuracy: "
        f"how often a critic names the label of a sample {seen}. ID: nats beyond {reference}. "
        f"IDI: 1 is what {original} knows, 0 what {reference} knows; in the sum of positive parts no block pays for "
        f"another. UA, RA, TA: a good method has {reference}'s values, not the highest.",
    )


def order_table(
    records: Sequence[Record], *, original: str = "Original", reference: str = "Retrain", last: int | None = None
) -> Table:
    """The models from the least IDI to the largest, for each family of critics."""
    curves = {record.method.label: curve_of(record) for record in records}
    ranks = order(curves, original=original, reference=reference, last=last)
    return Table(
        title="From the least IDI to the largest, by family of critics",
        columns=("Family", "Order"),
        rows=tuple(
            (family, ", ".join(f"{name} {value:.2f}" for name, value in ranked)) for family, ranked in ranks.items()
        ),
    )


def _index_cells(index: IDI) -> tuple[str, str, str, str]:
    if index.value is None or index.interval is None:
        return "undetermined", "", "", ""
    low, high = index.interval
    return f"{index.value:.2f}", f"{low:.2f} to {high:.2f}", f"{index.positive or 0:.2f}", str(index.largest)


ULIRA_COLUMNS = (
    ("AUC", "U-LiRA", 1, 3),
    ("AUC of the bare score", "U-LiRA.bare", 1, 3),
    ("Accuracy %", "U-LiRA.accuracy", 100, 1),
    ("TPR % at FPR 1 %", "U-LiRA.TPR@1e-2", 100, 2),
    ("TPR % at FPR 0.1 %", "U-LiRA.TPR@1e-3", 100, 2),
)


def ulira_table(records: Sequence[Record]) -> Table:
    """One row per method; the ideal is a coin's: AUC 0.5, accuracy 50 %, TPR equal to FPR."""
    setting = records[0].setting
    network, shadows = setting.network or {}, setting.shadows or ShadowFacts()
    width = f" (width {network['width']})" if "width" in network else ""
    whose = "all classes" if shadows.of_class is None else f"class {shadows.of_class}"
    read = [readings_of(record)["U-LiRA"] for record in records]
    shown = [column for column in ULIRA_COLUMNS if any(column[1] in {**each.values, **each.notes} for each in read)]
    rows, missing = [], []
    for record, reading in zip(records, read, strict=True):
        cells = (_ulira_cell(reading, name, factor, digits) for _, name, factor, digits in shown)
        rows.append((record.method.label, *cells, f"{record.seconds['RTE']:.1f}"))
        missing += [f"{record.method.label}, {name}: {why}." for name, why in reading.notes.items()]
    return Table(
        title=f"U-LiRA: {setting.dataset}, {network.get('network')}{width}, {shadows.models} shadow models, "
        f"{shadows.forget_sets} forget set{'s' if shadows.forget_sets != 1 else ''} of {shadows.size} of {whose}, "
        f"{setting.scale} scale",
        columns=("Method", *(column[0] for column in shown), "RTE s"),
        rows=tuple(rows),
        note="\n".join(
            [
                *missing,
                "Lower is better: 0.5, 50 % and the FPR itself mean that what was unlearned looks as if it had never "
                "been seen. Original has unlearned nothing. Few shadow models attack weakly, so compare methods under "
                "the same ones; an attack that does not beat the bare score, which needs none, has learned nothing from them. RTE: mean run time of one unlearning.",
            ]
        ),
    )


def _ulira_cell(reading: Reading, name: str, factor: float, digits: int) -> str:
    """The value with its 95 % interval, where it has one."""
    if name not in reading.values:
        return "none"
    ends = [reading.values[f"{name}.{end}"] for end in ("low", "high") if f"{name}.{end}" in reading.values]
    return with_interval(factor * reading.values[name], ends if len(ends) == 2 else None, digits)


def accuracy_table(records: Sequence[Record]) -> Table:
    """UA, RA and TA in per cent, one row per model."""
    return Table(
        title=setting_line(records[0]),
        columns=("Method", *ACCURACIES),
        rows=tuple((record.method.label, *_accuracies(record.readings["accuracy"])) for record in records),
        note="UA: error on the forgotten examples; RA: accuracy on the retained ones; TA: accuracy on the "
        "test data without the forgotten classes. A good method has Retrain's values, not the highest.",
    )


def unlearning_table(record: Record) -> Table:
    """UA, RA, TA of Original and of the unlearned model in per cent, and the run time (RTE)."""
    before, after = (_accuracies(record.readings[name]) for name in ("original accuracy", "accuracy"))
    return Table(
        title=setting_line(record),
        columns=("Method", *ACCURACIES, "RTE s", "CPU s"),
        rows=(
            ("Original", *before, "", ""),
            (
                record.method.label,
                *after,
                *(f"{record.seconds[x]:.1f}" if x in record.seconds else "" for x in ("RTE", "RTE.cpu")),
            ),
        ),
        note="A good method has Retrain's values, not the highest. RTE: run time of the unlearning; CPU: its processor time.",
    )


ACCURACIES = ("UA %", "RA %", "TA %")


def _accuracies(reading: Mapping[str, float]) -> list[str]:
    return [f"{100 * reading[name]:.1f}" for name in ("UA", "RA", "TA")]


def trajectory_table(record: Record) -> Table:
    """UA, RA, TA after each epoch, in per cent."""
    return Table(
        title=f"{record.method.label}, epoch by epoch",
        columns=("Epoch", *ACCURACIES),
        rows=tuple(
            (str(i), *(f"{100 * value:.1f}" for value in row))
            for i, row in enumerate(record.arrays["trajectory"], start=1)
        ),
    )
