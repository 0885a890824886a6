"""Verdicts on models whose truth is known, and which metric is fooled by which of them."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from residua.compare import Rules
from residua.compare.verdicts import WORDS, Word
from residua.errors import InputError
from residua.nested import differences
from residua.record import Record
from residua.report.audit import audit_report
from residua.report.audit_data import AuditReport, reference_role
from residua.report.metrics import headlines
from residua.report.table import Table, setting_line

REFERENCE = "Retrain"
FURTHER = "Further Retrain"
# How a reference is called: Retrain, Retrain 2, ...
REFERENCES = re.compile(r"Retrain( [2-9]| [1-9]\d+)?")
# What must hold of each control: at most, or at least, this share of seeds gets one of the words.
Bar = tuple[tuple[Word, ...], str, float]
NEVER_CLEARED: tuple[Bar, ...] = ((("FORGOTTEN", "OVER_UNLEARNED"), "at most", 0.05),)
RETRAINED: tuple[Bar, ...] = (
    (("FORGOTTEN",), "at least", 0.85),
    (("NOT_FORGOTTEN", "SHALLOW"), "at most", 0.05),
)
KNOWING = (
    "Original", "HD", "Masking", "Router", "Rescaled", "Mixed", "Oblique", "Scrambled", "Outliers", "Faint copy",
    "Still answers", "Defeat device",
)  # fmt: skip
BARS: dict[str, tuple[Bar, ...]] = {
    **dict.fromkeys(KNOWING, NEVER_CLEARED),
    **dict.fromkeys((FURTHER, "Second Retrain", "Retrain again"), RETRAINED),
    "Random": ((("FORGOTTEN",), "at most", 0.0),),
}
# Where samples are forgotten, evidence may not be enough to clear, but must not accuse.
BARS_OF_SAMPLES = BARS | {FURTHER: RETRAINED[1:]}


def control_reports(records: Sequence[Record], rules: Rules) -> list[AuditReport]:
    """The audit of each control of each seed, against that seed's Original and its references.

    Everything in the tables follows from these; the records, which are many times as large, are named in them by hash.
    """
    reports = []
    for seed, rows in _by_seed(records).items():
        references = sorted(
            (row for row in rows if REFERENCES.fullmatch(row)), key=lambda row: (len(row), row)
        )
        if "Original" not in rows or not references:
            continue
        zeros = {reference_role(i): rows[row] for i, row in enumerate(references, start=1)}
        for row, record in rows.items():
            if row not in references:
                roles = {"unlearned": record, "original": rows["Original"]} | zeros
                about: dict[str, Any] = {"control": record.method.label, "seed": seed}
                about |= {"draw": record.seeds["draw"]} if "draw" in record.seeds else {}
                about |= {"setting": setting_line(record).split(", seed ")[0]}
                reports.append(audit_report(roles, rules=rules, about=about))
    return reports


def check_alike(earlier: Sequence[AuditReport], reports: Sequence[AuditReport]) -> None:
    """Refuse to count reports together that were made in different ways."""
    if not reports:
        return
    now = _made(reports[0])
    for report in earlier:
        for difference in differences(_made(report), now):
            was, is_now = difference.short()
            raise InputError(
                f"the report of {report.about['control']}, seed {report.about['seed']}, cannot be counted with the new "
                f"ones: {difference.place} was {was} and is {is_now}; run all seeds"
            )


def _made(report: AuditReport) -> dict[str, Any]:
    """What two reports must share to be rows of one table."""
    about = report.about
    return {
        "rules": report.settings,
        "measures": about.get("measures"),
        "task": (about.get("task") or {}).get("sha256"),
        "network": about.get("network"),
        "setting": about["setting"],
        "references": report.inside.references if report.inside else 1,
        "version": (about.get("software") or {}).get("residua"),
    }


def compact(report: AuditReport) -> str:
    """The report as one line of JSON: controls have hundreds. Numbers have six digits, metrics are only their headlines, which
    are what tables of controls show, and notes are those of the unlearned model: Original's and the references' would stand
    in every report of a seed."""
    names = set(headlines(list(dict.fromkeys(n for values in report.metrics.values() for n in values))))
    metrics = {
        role: {n: v for n, v in values.items() if n in names} for role, values in report.metrics.items()
    }
    notes = {role: words for role, words in report.notes.items() if role == "unlearned"}
    data = report.model_dump(mode="json") | {"metrics": metrics, "notes": notes}
    return json.dumps(_rounded(data), ensure_ascii=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def verdict_table(reports: Sequence[AuditReport]) -> Table:
    """How often each control gets each word, and whether that is within its bar."""
    samples = (reports[0].about.get("task") or {}).get("scenario") == "random"
    bars = BARS_OF_SAMPLES if samples else BARS
    rows = []
    for row in dict.fromkeys(report.about["control"] for report in reports):
        words = Counter(report.verdict for report in reports if report.about["control"] == row)
        total = sum(words.values())
        held, texts = [], []
        for names, side, most in bars.get(row, ()):
            share = sum(words[name] for name in names) / total
            held.append(share <= most if side == "at most" else share >= most)
            texts.append(f"{' or '.join(names)} {side} {100 * most:.0f} %")
        kept = ("met" if all(held) else "MISSED") if held else ""
        rows.append((row, *(str(words[word]) for word in WORDS), "; ".join(texts), kept))
    seeds = len({report.about["seed"] for report in reports})
    return Table(
        title=f"{reports[0].about['setting']}: verdicts on models whose truth is known, {seeds} seed{'s' if seeds > 1 else ''}",
        columns=("Model", *WORDS, "Bar", ""),
        rows=tuple(rows),
        note=_note(reports),
    )


def _note(reports: Sequence[AuditReport]) -> str:
    """The rules, and how often the interval of a further retrained model holds 0."""
    rules = reports[0].settings
    first = reports[0].inside
    lines = [
        f"Tolerance {first.tolerance:g}" if first else f"Margin {rules.get('margin') or 0.5:g}",
        f"level {rules['level']:g}, utility {rules['utility']:g}. Each seed has its own Original and "
        f"{first.references if first else 1} reference(s).",
    ]
    text = ", ".join(lines)
    further = [r for r in reports if r.about["control"] in (FURTHER, "Second Retrain", "Retrain again")]
    intervals = [r.idi.interval for r in further if r.idi is not None and r.idi.interval is not None]
    if intervals:
        holds = sum(low <= 0 <= high for low, high in intervals)
        text += f" The 95 % interval of a further retrained model's IDI holds 0 in {holds} of {len(intervals)} seeds."
    resolutions = [
        r.inside.resolution for r in further if r.inside is not None and r.inside.resolution is not None
    ]
    if resolutions:
        text += f" Median resolution {statistics.median(resolutions):.2f}."
    return text


def fooled_table(reports: Sequence[AuditReport]) -> Table:
    """In what share of seeds a metric places a control nearer the reference than Original.

    For cheats that is the share in which it is fooled. Only seeds count in which the metric tells
    Original and the reference apart at all; `none` if there are none.
    """
    names = headlines(
        list(dict.fromkeys(n for report in reports for of_role in report.metrics.values() for n in of_role))
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
        "Original knows. One that shows 0 for a second Retrain fails a retrained model.",
    )


def _nearer(seeds: Sequence[Mapping[str, Mapping[str, float]]], name: str) -> Iterator[bool]:
    for of_seed in seeds:
        if all(name in of_seed[role] for role in ("unlearned", "original", "reference")):
            value, original, reference = (
                of_seed[role][name] for role in ("unlearned", "original", "reference")
            )
            if abs(original - reference) > 1e-9:
                yield abs(value - reference) < abs(value - original)


def _by_seed(records: Sequence[Record]) -> dict[int, dict[str, Record]]:
    """By Original's seed and by label; further unlearnings of one Original have their number behind it."""
    rows: dict[int, dict[str, Record]] = {}
    for record in records:
        draw = f" draw {record.seeds['draw']}" if "draw" in record.seeds else ""
        rows.setdefault(record.seeds["training"], {})[record.method.label + draw] = record
    return rows
