"""U-LiRA of several methods side by side."""

from __future__ import annotations

from collections.abc import Sequence

from residua.compare import readings_of
from residua.record import Record
from residua.report.table import Table

COLUMNS = (
    ("AUC", "U-LiRA", 1, 3),
    ("Accuracy %", "U-LiRA.accuracy", 100, 1),
    ("TPR % at FPR 1 %", "U-LiRA.TPR@1e-2", 100, 2),
    ("TPR % at FPR 0.1 %", "U-LiRA.TPR@1e-3", 100, 2),
)


def ulira_table(records: Sequence[Record]) -> Table:
    """One row a method; the ideal is a coin's: AUC 0.5, accuracy 50 %, TPR equal to FPR."""
    setting = records[0].setting
    network, shadows = setting["network"], setting["shadows"]
    width = f" (width {network['width']})" if "width" in network else ""
    whose = "all classes" if shadows["of_class"] is None else f"class {shadows['of_class']}"
    rows, missing = [], []
    for record in records:
        reading = readings_of(record)["U-LiRA"]
        cells = (
            f"{factor * reading.values[name]:.{digits}f}" if name in reading.values else "none"
            for _, name, factor, digits in COLUMNS
        )
        rows.append((record.method["label"], *cells, f"{record.seconds['RTE']:.1f}"))
        missing += [f"{record.method['label']}, {name}: {why}." for name, why in reading.notes.items()]
    return Table(
        title=f"U-LiRA: {setting['dataset']}, {network['network']}{width}, {shadows['models']} shadow models, "
        f"{shadows['forget_sets']} forget set{'s' if shadows['forget_sets'] > 1 else ''} of {shadows['size']} of {whose}, {setting['scale']} scale",
        columns=("Method", *(column[0] for column in COLUMNS), "RTE s"),
        rows=tuple(rows),
        note="\n".join(
            [
                *missing,
                "Lower is better: 0.5, 50 % and the FPR itself mean that what was unlearned looks as if it had never "
                "been seen. Original has unlearned nothing. Few shadow models attack weakly, so compare methods under "
                "the same ones. RTE: mean run time of one unlearning.",
            ]
        ),
    )
