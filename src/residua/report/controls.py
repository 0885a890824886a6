"""Verdicts on models whose truth is known, and which metric is fooled by which of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from residua.compare import Rules, metrics, readings_of
from residua.compare.verdict import WORDS, Word
from residua.record import Record
from residua.report.audit import AuditReport, audit_report
from residua.report.metrics import headlines
from residua.report.table import Table, setting_line

REFERENCE = "Retrain"
# What must hold of each control: at most, or at least, this share of seeds gets the word.
BARS: dict[str, tuple[tuple[Word, str, float], ...]] = {
    "Original": (("FORGOTTEN", "at most", 0.05),),
    "HD": (("FORGOTTEN", "at most", 0.05),),
    "Masking": (("FORGOTTEN", "at most", 0.05),),
    "Router": (("FORGOTTEN", "at most", 0.05),),
    "Second Retrain": (
        ("FORGOTTEN", "at least", 0.85),
        ("NOT_FORGOTTEN", "at most", 0.05),
        ("SHALLOW", "at most", 0.05),
    ),
    "Random": (("FORGOTTEN", "at most", 0.0),),
}


def control_reports(records: Sequence[Record], rules: Rules) -> dict[tuple[str, int], AuditReport]:
    """The audit of each control of each seed, against that seed's Original and Retrain."""
    found = {}
    for seed, of in _by_seed(records).items():
        if not {"Original", REFERENCE} <= set(of):
            continue
        for row, record in of.items():
            if row != REFERENCE:
                roles = {"unlearned": record, "original": of["Original"], "reference": of[REFERENCE]}
                found[row, seed] = audit_report(roles, rules=rules)
    return found


def verdict_table(records: Sequence[Record], rules: Rules) -> Table:
    """How often each control gets each word, and whether that is within its bar."""
    reports = control_reports(records, rules)
    rows = []
    for row in dict.fromkeys(row for row, _ in reports):
        words = Counter(report.verdict for (of, _), report in reports.items() if of == row)
        total = sum(words.values())
        held = [
            words[word] / total <= share if side == "at most" else words[word] / total >= share
            for word, side, share in BARS.get(row, ())
        ]
        bar = "; ".join(f"{word} {side} {100 * share:.0f} %" for word, side, share in BARS.get(row, ()))
        kept = ("met" if all(held) else "MISSED") if held else ""
        rows.append((row, *(str(words[word]) for word in WORDS), bar, kept))
    seeds = len({seed for _, seed in reports})
    return Table(
        title=f"{setting_line(records[0]).split(', seed ')[0]}: verdicts on models whose truth is known, {seeds} seeds",
        columns=("Model", *WORDS, "Bar", ""),
        rows=tuple(rows),
        note=f"Margin {rules.margin:g}, level {rules.level:g}, utility {rules.utility:g}. Each seed has its own "
        f"Original and {REFERENCE}.",
    )


def fooled_table(records: Sequence[Record]) -> Table:
    """In what share of seeds a metric places a control nearer the reference than Original.

    For cheats that is the share in which it is fooled. Only seeds count in which the metric tells
    Original and the reference apart at all; `none` if there are none.
    """
    values = {
        seed: {
            row: metrics(
                readings_of(record),
                original=readings_of(of["Original"]),
                reference=readings_of(of[REFERENCE]),
            ).values
            for row, record in of.items()
        }
        for seed, of in _by_seed(records).items()
        if {"Original", REFERENCE} <= set(of)
    }
    names = headlines(list(dict.fromkeys(n for of in values.values() for v in of.values() for n in v)))
    shown = dict.fromkeys(row for of in values.values() for row in of if row not in ("Original", REFERENCE))
    rows = []
    for name in names:
        cells = []
        for row in shown:
            nearer = list(_nearer(values, row, name))
            cells.append(f"{100 * sum(nearer) / len(nearer):.0f}" if nearer else "none")
        if any(cell != "none" for cell in cells):
            rows.append((name, *cells))
    return Table(
        title="Seeds, in per cent, in which a metric places a model nearer Retrain than Original",
        columns=("Metric", *shown),
        rows=tuple(rows),
        note="A metric that shows 100 for HD, Masking, Router or Smoothing is fooled by it: those know all that "
        "Original knows. One that shows 0 for a second Retrain fails an innocent model.",
    )


def _nearer(values: Mapping[int, Mapping[str, Mapping[str, float]]], row: str, name: str) -> Iterator[bool]:
    for of in values.values():
        if all(name in of.get(model, {}) for model in (row, "Original", REFERENCE)):
            value, original, reference = (of[model][name] for model in (row, "Original", REFERENCE))
            if abs(original - reference) > 1e-9:
                yield abs(value - reference) < abs(value - original)


def _by_seed(records: Sequence[Record]) -> dict[int, dict[str, Record]]:
    found: dict[int, dict[str, Record]] = {}
    for record in records:
        found.setdefault(record.seeds["training"], {})[record.method["label"]] = record
    return found
