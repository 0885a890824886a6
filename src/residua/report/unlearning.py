"""One unlearning run: before, after, and epoch by epoch."""

from __future__ import annotations

from residua.record import Record
from residua.report.table import Table, setting_line

NAMES = ("UA", "RA", "TA")


def unlearning_table(record: Record) -> Table:
    """UA, RA, TA of Original and of the unlearned model in per cent, and the run time (RTE)."""
    rows = [
        (label, *(f"{100 * record.readings[reading][name]:.1f}" for name in NAMES), spent)
        for label, reading, spent in (
            ("Original", "original accuracy", ""),
            (record.method.label, "accuracy", f"{record.seconds['RTE']:.1f}"),
        )
    ]
    return Table(
        title=setting_line(record),
        columns=("Method", "UA %", "RA %", "TA %", "RTE s"),
        rows=tuple(rows),
        note="A good method has Retrain's values, not the highest. RTE: run time of the unlearning.",
    )


def trajectory_table(record: Record) -> Table:
    """UA, RA, TA after each epoch, in per cent."""
    return Table(
        title=f"{record.method.label}, epoch by epoch",
        columns=("Epoch", "UA %", "RA %", "TA %"),
        rows=tuple(
            (str(i), *(f"{100 * value:.1f}" for value in row))
            for i, row in enumerate(record.arrays["trajectory"], start=1)
        ),
    )
