"""Every method on one task: mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from residua.compare import curve_of, idi
from residua.record import Record
from residua.report.table import Table, setting_line


def catalogue_table(
    records: Sequence[Record], original: str = "Original", reference: str = "Retrain"
) -> Table:
    """UA, RA, TA, RTE and IDI of each method, each seed against its own Original and Retrain."""
    of_seed = {(r.seeds["training"], r.method["label"]): r for r in records}
    seeds = sorted({seed for seed, _ in of_seed})
    labels = list(dict.fromkeys(r.method["label"] for r in records))
    known = all("information" in r.readings for r in records)
    rows = []
    for label in labels:
        mine = [of_seed[seed, label] for seed in seeds if (seed, label) in of_seed]
        said = [_share([r.readings["accuracy"][name] for r in mine]) for name in ("UA", "RA", "TA")]
        row = [label, *said, f"{mean(r.seconds['RTE'] for r in mine):.1f}"]
        if known:
            row.append(_idi([_of(r, of_seed, original, reference) for r in mine]))
        rows.append(tuple(row))
    title = setting_line(records[0]).split(", seed ")[0]
    return Table(
        title=f"{title}, mean of {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        + (" ± standard deviation" if len(seeds) > 1 else ""),
        columns=("Method", "UA %", "RA %", "TA %", "RTE s", *(("IDI",) if known else ())),
        rows=tuple(rows),
        note=f"A good method has {reference}'s values, not the highest. RTE: run time of the unlearning."
        + (f" IDI: 1 is what {original} knows, 0 what {reference} knows." if known else ""),
    )


def _of(record: Record, of_seed: dict, original: str, reference: str) -> float | None:
    seed = record.seeds["training"]
    ends = (curve_of(of_seed[seed, label]) for label in (original, reference))
    upper, lower = ends
    return idi(curve_of(record), original=upper, reference=lower).value


def _share(values: list[float]) -> str:
    return f"{100 * mean(values):.1f}" + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def _idi(values: list[float | None]) -> str:
    found = [value for value in values if value is not None]
    lost = f" ({len(values) - len(found)} undetermined)" if len(found) < len(values) else ""
    if not found:
        return "undetermined"
    return f"{mean(found):.2f}" + (f" ± {stdev(found):.2f}" if len(found) > 1 else "") + lost
