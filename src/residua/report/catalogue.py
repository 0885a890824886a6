"""Every method on one task: the columns of the paper's tables, mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from residua.compare import metrics, readings_of
from residua.readings import Reading
from residua.record import Record
from residua.report.table import Table, setting_line

# Column, name of the metric, factor (100: in per cent), digits.
COLUMNS = (
    ("UA %", "UA", 100, 1),
    ("RA %", "RA", 100, 1),
    ("TA %", "TA", 100, 1),
    ("MIA %", "E-MIA", 100, 1),
    ("JSD", "JSD", 1, 3),
    ("recovery %", "recovery", 100, 1),
    ("IDI", "IDI", 1, 2),
)


def catalogue_table(
    records: Sequence[Record],
    original: str = "Original",
    reference: str = "Retrain",
    verdicts: Mapping[str, str] | None = None,
) -> Table:
    """One row per method; each seed is compared with its own Original and Retrain.

    `verdicts`, by label, become a last column.
    """
    of_seed = {(record.seeds["training"], record.method.label): record for record in records}
    seeds = sorted({seed for seed, _ in of_seed})
    labels = dict.fromkeys(record.method.label for record in records)
    read = {key: readings_of(record) for key, record in of_seed.items()}
    summaries = {
        (seed, label): metrics(
            readings, original=read.get((seed, original)), reference=read.get((seed, reference))
        )
        for (seed, label), readings in read.items()
    }
    shown = [
        column for column in COLUMNS if any(_known(reading, column[1]) for reading in summaries.values())
    ]
    rows = []
    for label in labels:
        mine = [summaries[seed, label] for seed in seeds if (seed, label) in summaries]
        spent = mean(of_seed[seed, label].seconds["RTE"] for seed in seeds if (seed, label) in summaries)
        cells = (_cell(mine, name, factor, digits) for _, name, factor, digits in shown)
        last = () if verdicts is None else (verdicts.get(label, ""),)
        rows.append((label, *cells, f"{spent:.1f}", *last))
    many = len(seeds) > 1
    return Table(
        title=setting_line(records[0]).split(", seed ")[0]
        + (f", mean ± standard deviation of {len(seeds)} seeds" if many else f", seed {seeds[0]}"),
        columns=(
            "Method",
            *(column[0] for column in shown),
            "RTE s",
            *(() if verdicts is None else ("Verdict",)),
        ),
        rows=tuple(rows),
        note=f"A good method has {reference}'s values, not the highest. IDI: 1 is what {original} knows, 0 what "
        f"{reference} knows. MIA: share of the forgotten that an attacker calls member, where it is better than chance. JSD: distance of the "
        f"outputs from {reference}'s on the forgotten. Recovery: accuracy on forgotten test data after a new head "
        "was trained. RTE: run time of the unlearning.",
    )


def _known(reading: Reading, name: str) -> bool:
    return name in reading.values or name in reading.notes


def _cell(readings: Sequence[Reading], name: str, factor: float, digits: int) -> str:
    values = [factor * reading.values[name] for reading in readings if name in reading.values]
    missing = len(readings) - len(values)
    if not values and name == "E-MIA":
        return "at chance" if any(name in reading.notes for reading in readings) else "none"
    if not values:
        return "undetermined" if name == "IDI" else "none"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}" + (f" ({missing} undetermined)" if missing else "")
