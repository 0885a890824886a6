"""Verdicts on models whose truth is known, and which metric is fooled by which of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from residua.compare import Rules
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


def control_reports(records: Sequence[Record], rules: Rules) -> list[AuditReport]:
    """The audit of each control of each seed, against that seed's Original and Retrain.

    Everything in the tables follows from these; the records, which are many times as large, are named in them by hash.
    """
    found = []
    for seed, of in _by_seed(records).items():
        if not {"Original", REFERENCE} <= set(of):
            continue
        for row, record in of.items():
            if row != REFERENCE:
                roles = {"unlearned": record, "original": of["Original"], "reference": of[REFERENCE]}
                about = {"control": row, "seed": seed, "setting": setting_line(record).split(", seed ")[0]}
                found.append(audit_report(roles, rules=rules, about=about))
    return found


def verdict_table(reports: Sequence[AuditReport]) -> Table:
    """How often each control gets each word, and whether that is within its bar."""
    rows = []
    for row in dict.fromkeys(report.about["control"] for report in reports):
        words = Counter(report.verdict for report in reports if report.about["control"] == row)
        total = sum(words.values())
        held = [
            words[word] / total <= share if side == "at most" else words[word] / total >= share
            for word, side, share in BARS.get(row, ())
        ]
        bar = "; ".join(f"{word} {side} {100 * share:.0f} %" for word, side, share in BARS.get(row, ()))
        kept = ("met" if all(held) else "MISSED") if held else ""
        rows.append((row, *(str(words[word]) for word in WORDS), bar, kept))
    seeds = len({report.about["seed"] for report in reports})
    rules = reports[0].settings
    return Table(
        title=f"{reports[0].about['setting']}: verdicts on models whose truth is known, {seeds} seeds",
        columns=("Model", *WORDS, "Bar", ""),
        rows=tuple(rows),
        note=f"Margin {rules['margin']:g}, level {rules['level']:g}, utility {rules['utility']:g}. Each seed has its "
        f"own Original and {REFERENCE}.",
    )


def fooled_table(reports: Sequence[AuditReport]) -> Table:
    """In what share of seeds a metric places a control nearer the reference than Original.

    For cheats that is the share in which it is fooled. Only seeds count in which the metric tells
    Original and the reference apart at all; `none` if there are none.
    """
    names = headlines(
        list(dict.fromkeys(n for report in reports for of in report.metrics.values() for n in of))
    )
    shown = dict.fromkeys(r.about["control"] for r in reports if r.about["control"] != "Original")
    rows = []
    for name in names:
        cells = []
        for row in shown:
            nearer = list(_nearer([r.metrics for r in reports if r.about["control"] == row], name))
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


def _nearer(seeds: Sequence[Mapping[str, Mapping[str, float]]], name: str) -> Iterator[bool]:
    for of in seeds:
        if all(name in of[role] for role in ("unlearned", "original", "reference")):
            value, original, reference = (of[role][name] for role in ("unlearned", "original", "reference"))
            if abs(original - reference) > 1e-9:
                yield abs(value - reference) < abs(value - original)


def _by_seed(records: Sequence[Record]) -> dict[int, dict[str, Record]]:
    found: dict[int, dict[str, Record]] = {}
    for record in records:
        found.setdefault(record.seeds["training"], {})[record.method["label"]] = record
    return found
