"""Information curves and IDI as a table."""

from __future__ import annotations

from collections.abc import Sequence

from residua.compare import curve_of, idi
from residua.record import Record
from residua.report.table import Table, setting_line


def information_table(
    records: Sequence[Record],
    *,
    original: str = "Original",
    reference: str = "Retrain",
    last: int | None = None,
) -> Table:
    """What each model says (where it was asked) and what its blocks know, against two of the records."""
    curves = {record.method["label"]: curve_of(record) for record in records}
    blocks = curves[original].blocks
    asked = "accuracy" in records[0].readings
    rows = []
    for record in records:
        label = record.method["label"]
        found = idi(curves[label], original=curves[original], reference=curves[reference], last=last)
        said = (
            tuple(f"{100 * record.readings['accuracy'][k]:.1f}" for k in ("UA", "RA", "TA")) if asked else ()
        )
        known = tuple(f"{curves[label].information[block]:.3f}" for block in blocks)
        value = "undetermined" if found.value is None else f"{found.value:.2f}"
        between = "" if found.interval is None else f"{found.interval[0]:.2f} to {found.interval[1]:.2f}"
        rows.append((label, *said, *known, value, between))
    ceiling = curves[original].ceiling
    return Table(
        title=setting_line(records[0]),
        columns=(
            "Method",
            *(("UA %", "RA %", "TA %") if asked else ()),
            *(f"I block {block}" for block in blocks),
            "IDI",
            "95 % interval",
        ),
        rows=tuple(rows),
        note=f"I: nats that a block still holds about what was to be forgotten, at most H(Y) = {ceiling:.3f}. "
        f"IDI: 1 is what {original} knows, 0 what {reference} knows. UA, RA, TA: a good method has "
        f"{reference}'s values, not the highest.",
    )
