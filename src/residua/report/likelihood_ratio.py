"""U-LiRA of several methods side by side."""

from __future__ import annotations

from collections.abc import Sequence

from residua.compare import readings_of
from residua.facts import ShadowFacts
from residua.readings import Reading
from residua.record import Record
from residua.report.table import Table

COLUMNS = (
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
    shown = [column for column in COLUMNS if any(column[1] in {**each.values, **each.notes} for each in read)]
    rows, missing = [], []
    for record, reading in zip(records, read, strict=True):
        cells = (_cell(reading, name, factor, digits) for _, name, factor, digits in shown)
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


def _cell(reading: Reading, name: str, factor: float, digits: int) -> str:
    """The value with its 95 % interval, where it has one."""
    if name not in reading.values:
        return "none"
    ends = [reading.values.get(f"{name}.{end}") for end in ("low", "high")]
    interval = f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})" if None not in ends else ""
    return f"{factor * reading.values[name]:.{digits}f}{interval}"
