"""Information curves and IDI as a table."""

from __future__ import annotations

from collections.abc import Sequence

from residua.compare import IDI, curve_of, idi, order
from residua.record import Record
from residua.report.table import Table, setting_line


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
        accuracies = ("UA", "RA", "TA") if with_accuracy else ()
        rows.append(
            (
                record.method.label,
                *(f"{100 * record.readings['accuracy'][name]:.1f}" for name in accuracies),
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
            *(("UA %", "RA %", "TA %") if with_accuracy else ()),
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
    records: Sequence[Record],
    *,
    original: str = "Original",
    reference: str = "Retrain",
    last: int | None = None,
) -> Table:
    """The models from the least IDI to the largest, for each family of critics."""
    curves = {record.method.label: curve_of(record) for record in records}
    ranks = order(curves, original=original, reference=reference, last=last)
    return Table(
        title="From the least IDI to the largest, by family of critics",
        columns=("Family", "Order"),
        rows=tuple(
            (family, ", ".join(f"{name} {value:.2f}" for name, value in ranked))
            for family, ranked in ranks.items()
        ),
    )


def _index_cells(index: IDI) -> tuple[str, str, str, str]:
    if index.value is None or index.interval is None:
        return "undetermined", "", "", ""
    low, high = index.interval
    return f"{index.value:.2f}", f"{low:.2f} to {high:.2f}", f"{index.positive or 0:.2f}", str(index.largest)
