"""Verdicts on models whose truth is known, and which metric is fooled by which of them."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from residua.compare import Rules
from residua.compare.metric_values import auc_interval
from residua.compare.references import MOVED, UNSEEN
from residua.compare.verdicts import VERDICT_READINGS, WORDS, Word
from residua.errors import InputError
from residua.record import Record
from residua.report.audit import AuditReport, audit_report
from residua.report.table import Table, headlines, setting_line, with_interval
from residua.report.text import role_name
from residua.roles import reference_role, references_in, role_of
from residua.text import differences

FURTHER = "Further Retrain"
# Controls that were trained without the forgotten data, and nothing else.
WITHOUT = (FURTHER, "Second Retrain", "Retrain again")
OTHERWISE = tuple(
    f"Retrain, {how}" for how in ("half the width", "without augmentation", "label-smoothed", "pruned", "quantised")
)
# Models that are none of an audit's, but stand among its references.
BAD_REFERENCES = ("Reference, short", "Reference, tainted")
# Bars of each control: at most, or at least, this fraction of seeds gets one of the words.
Bar = tuple[tuple[Word, ...], str, float]
NEVER_CLEARED: tuple[Bar, ...] = ((("FORGOTTEN", "OVER_UNLEARNED"), "at most", 0.05),)
RETRAINED: tuple[Bar, ...] = ((("FORGOTTEN",), "at least", 0.85), (("NOT_FORGOTTEN", "SHALLOW"), "at most", 0.05))
# A retrained encoder beside channels that say nothing until their owner wakes them.
SILENT = ("Switched off", "Switched off, weights", "Switched off, first block")
KNOWING = (
    "Original", "HD", "Masking", "Router", "Rescaled", "Mixed", "Oblique", "Scrambled", "Outliers", "Faint copy",
    "Still answers", "Defeat device", *SILENT, "Coded, product", "Coded, digits", "Asked otherwise, near",
    "Asked otherwise, mode", "Adaptive",
)  # fmt: skip
# Limits of principle: a keyed code, and bits that only a release in canonical form removes. They have no bar.
BARS: dict[str, tuple[Bar, ...]] = {
    **dict.fromkeys(KNOWING, NEVER_CLEARED),
    **dict.fromkeys(WITHOUT, RETRAINED),
    **dict.fromkeys(OTHERWISE, RETRAINED[1:]),
    "Random": ((("FORGOTTEN",), "at most", 0.0),),
}
# Where samples are forgotten, evidence may not be enough to clear, but must not accuse.
BARS_OF_SAMPLES = BARS | {FURTHER: RETRAINED[1:]}


def control_reports(records: Sequence[Record], rules: Rules) -> list[AuditReport]:
    """The audit of each control of each seed, against that seed's Original and its references.

    Everything in the tables follows from these; the records, which are many times as large, are named in them by hash.
    """
    reports = []
    for (_, seed), rows in _by_seed(records).items():
        references = sorted(
            (row for row, record in rows.items() if record.role == "reference"), key=lambda row: (len(row), row)
        )
        original = next((record for record in rows.values() if record.role == "original"), None)
        if original is None or not references:
            continue
        zeros = {reference_role(i): rows[row] for i, row in enumerate(references, start=1)}
        bad = {row: rows[row] for row in BAD_REFERENCES if row in rows}
        for row, record in rows.items():
            if row not in references and row not in bad:
                roles = {"unlearned": record, "original": original} | zeros
                about: dict[str, Any] = {"control": record.method.label, "seed": seed}
                about |= {"draw": record.seeds["draw"]} if "draw" in record.seeds else {}
                about |= {"setting": setting_line(record).split(", seed ")[0]}
                if row == FURTHER and bad:
                    about["bad_references"] = {name: _noticed(roles, each, rules) for name, each in bad.items()}
                reports.append(audit_report(roles, rules=rules, about=about))
    return reports


def _noticed(roles: Mapping[str, Record], bad: Record, rules: Rules) -> Literal["refused", "named", "passed"]:
    """The answer of an audit to this model in the place of its last reference."""
    last = references_in(roles)[-1]
    try:
        report = audit_report({**roles, last: bad}, rules=rules)
    except InputError:
        return "refused"
    return "named" if any(each.text.startswith(role_name(last)) for each in report.caveats) else "passed"


def verdicts_of(records: Sequence[Record]) -> dict[str, Counter[str]]:
    """Counts of the words of each method's models, where the records are whole: made for verdicts, and not compact.

    Compact records keep only the means of further families, whose intervals would be too short to clear a model:
    `residua study verdicts` judges from the store.
    """
    whole = all(
        set(record.readings) >= set(VERDICT_READINGS["weights"])
        and any(name.startswith("representation.") for name in record.arrays)
        for record in records
    )
    found: dict[str, Counter[str]] = {}
    for report in control_reports(records, Rules()) if whole else ():
        found.setdefault(report.about["control"], Counter())[report.verdict] += 1
    return found


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
    """Facts that two reports must have in common to be rows of one table."""
    about = report.about
    return {
        "rules": dataclasses.asdict(report.rules),
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
    names = _names([report])
    metrics = {role: {n: v for n, v in values.items() if n in names} for role, values in report.metrics.items()}
    notes = {role: words for role, words in report.notes.items() if role == "unlearned"}
    data = report.model_dump(mode="json") | {"metrics": metrics, "notes": notes}
    return json.dumps(_rounded(data), ensure_ascii=False, separators=(",", ":"))


def _names(reports: Sequence[AuditReport]) -> list[str]:
    """The metrics that tables of controls show."""
    every = dict.fromkeys(n for report in reports for values in report.metrics.values() for n in values)
    return headlines(list(every))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def verdict_table(reports: Sequence[AuditReport]) -> Table:
    """Counts of the words that each control gets, and whether they are within its bar."""
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
    rules = reports[0].rules
    first = reports[0].inside
    text = (
        f"Tolerance {first.tolerance if first else rules.tolerance(1):g}, level {rules.level:g}, utility "
        f"{rules.utility:g}. Each seed has its own Original and {first.references if first else 1} reference(s)."
    )
    further = [r for r in reports if r.about["control"] in WITHOUT]
    intervals = [r.idi.interval for r in further if r.idi is not None and r.idi.interval is not None]
    if intervals:
        holds = sum(low <= 0 <= high for low, high in intervals)
        text += f" The 95 % interval of a further retrained model's IDI holds 0 in {holds} of {len(intervals)} seeds."
    resolutions = [found for r in further if r.inside and (found := r.inside.resolution) is not None]
    if resolutions:
        text += f" Median resolution {statistics.median(resolutions):.2f}."
    for name in BAD_REFERENCES:
        said = Counter(found[name] for r in reports if name in (found := r.about.get("bad_references", {})))
        if said:
            text += f" {name}: refused in {said['refused']} and named in {said['named']} of {said.total()} seeds."
    return text


# Residues in units of the tolerance, planted into further Retrains, and the most that may pass.
RESIDUES, MOST_PASSING = (0.0, 0.5, 1.0, 2.0), 0.05


def residue_table(reports: Sequence[AuditReport]) -> Table | None:
    """The fraction of further Retrains that are FORGOTTEN with a residue planted into their readings; None without any.

    IDI and every reading of the whole inside are shifted by the residue; blocks are left alone, since it may be in any of
    them, so a real residue passes at most as often.
    """
    further = [report for report in reports if report.about["control"] in WITHOUT and report.inside is not None]
    rows = []
    for residue in RESIDUES if further else ():
        passed = sum(_forgotten_with(report, residue) for report in further)
        bar = f"at most {100 * MOST_PASSING:.0f} %" if residue >= 1 else ""
        met = "met" if passed <= MOST_PASSING * len(further) else "MISSED"
        rows.append((f"{residue:g}", str(passed), str(len(further)), bar, met if bar else ""))
    return (
        Table(
            title="Residues planted into further Retrains",
            columns=("Residue, in tolerances", "FORGOTTEN", "of", "Bar", ""),
            rows=tuple(rows),
            note="Arithmetic on the reports: IDI, families of critics, unseen and moved images are shifted by the residue.",
        )
        if rows
        else None
    )


def _forgotten_with(report: AuditReport, residue: float) -> bool:
    """Would this model be FORGOTTEN if it knew so much more, in units of the tolerance?"""
    found = report.inside
    if found is None or found.idi.value is None or found.idi.interval is None:
        return False
    shift = residue * found.tolerance
    whole = [name for name in found.parts if name in (UNSEEN, MOVED) or name.endswith(" critics")]
    parts = {
        name: dataclasses.replace(part, value=part.value + shift, low=part.low + shift, high=part.high + shift)
        for name, part in found.parts.items()
        if name in whole
    }
    low, high = found.idi.interval
    index = dataclasses.replace(found.idi, value=found.idi.value + shift, interval=(low + shift, high + shift))
    moved = dataclasses.replace(found, idi=index, parts=found.parts | parts)
    barred = any(each.bars for each in report.caveats) or any(
        each.contradicts(found.tolerance) for each in report.witnesses
    )
    return moved.passes and not barred and (report.findings.says, report.findings.keeps) == ("like", "kept")


def fooled_table(reports: Sequence[AuditReport]) -> Table:
    """The fraction of seeds in which a metric places a control nearer the reference than Original.

    For cheats that is the fraction in which it is fooled. Only seeds count in which the metric tells
    Original and the reference apart at all; `none` if there are none.
    """
    shown = dict.fromkeys(r.about["control"] for r in reports if role_of(r.about["control"]) != "original")
    rows = []
    for name in _names(reports):
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
        value, original, reference = (of_seed[role].get(name) for role in ("unlearned", "original", "reference"))
        if value is None or original is None or reference is None or abs(original - reference) <= 1e-9:
            continue
        yield abs(value - reference) < abs(value - original)


def _by_seed(records: Sequence[Record]) -> dict[tuple[str, int], dict[str, Record]]:
    """By task and network of the study and by Original's seed, and by label; further unlearnings have their number behind it.

    The names of records begin with task and network where a study has several: a control may have a network of its own.
    """
    rows: dict[tuple[str, int], dict[str, Record]] = {}
    for record in records:
        draw = f" draw {record.seeds['draw']}" if "draw" in record.seeds else ""
        seed = record.seeds["training"]
        place = record.name.rpartition(f"seed{seed}-")[0]
        rows.setdefault((place, seed), {})[record.method.label + draw] = record
    return rows


# A retrained encoder; what it still says is not knowledge inside.
LEFT_OUT = ("Still answers", *SILENT)


@dataclass(frozen=True)
class Detector:
    """A metric as a detector: the probability that a model with the knowledge is further from the references than one without it."""

    name: str
    auc: float
    low: float
    high: float
    knowing: int
    without: int
    fooled_by: tuple[str, ...]


def knows(control: str) -> bool | None:
    """True if a control has what Original knows of the forgotten data; None where that is open."""
    if control in WITHOUT:
        return False
    return True if control in KNOWING and control not in LEFT_OUT else None


def detectors(reports: Sequence[AuditReport], truth: Callable[[str], bool | None] = knows) -> list[Detector]:
    """Every metric over all controls, the best first.

    A model's score is its distance from the mean of the references towards Original, in units of Original's distance:
    0 is a reference, 1 Original. Seeds in which the metric cannot distinguish Original from the references count as 0. Each reference left out
    against the others counts as a model without the knowledge.

    Args:
        reports: Audits of models whose truth is known.
        truth: Whether the control of this name has the knowledge; None leaves it out.
    """
    names = [name for name in _names(reports) if not name.endswith((".low", ".high"))]
    found = [each for name in names if (each := _detector(name, reports, truth)) is not None]
    return sorted(found, key=lambda each: -each.auc)


def _detector(name: str, reports: Sequence[AuditReport], truth: Callable[[str], bool | None]) -> Detector | None:
    with_it: dict[str, list[float]] = {}
    without: list[float] = []
    seeds: set[tuple[str, int]] = set()
    for report in reports:
        row = report.about["control"]
        score = _score(report.metrics, name, "unlearned")
        if score is not None and truth(row):
            with_it.setdefault(row, []).append(score)
        elif score is not None and truth(row) is False:
            without.append(score)
        seed = (report.about.get("setting", ""), report.about["seed"])
        if seed not in seeds:  # references are the same in all reports of a seed
            seeds.add(seed)
            left_out = (_score(report.metrics, name, role) for role in references_in(report.metrics))
            without += [each for each in left_out if each is not None]
    scores = [score for values in with_it.values() for score in values]
    if not scores or not without:
        return None
    auc = _auc(scores, without)
    low, high = auc_interval(auc, len(scores), len(without))
    fooled = tuple(row for row, values in with_it.items() if _auc(values, without) < 0.75)
    return Detector(name, auc, low, high, len(scores), len(without), fooled)


def _score(metrics: Mapping[str, Mapping[str, float]], name: str, role: str) -> float | None:
    zeros = [other for other in references_in(metrics) if other != role]
    if not zeros or any(name not in metrics[each] for each in (role, "original", *zeros)):
        return None
    zero = sum(metrics[each][name] for each in zeros) / len(zeros)
    gap = metrics["original"][name] - zero
    return 0.0 if abs(gap) < 1e-9 else (metrics[role][name] - zero) / gap


def _auc(ones: Sequence[float], others: Sequence[float]) -> float:
    """The fraction of pairs in which the first is larger; ties count half."""
    a, b = np.asarray(ones)[:, None], np.asarray(others)[None, :]
    return float((a > b).mean() + (a == b).mean() / 2)


def detector_table(reports: Sequence[AuditReport]) -> Table:
    """The AUC of every metric with its 95 % interval, and the controls that fool it."""
    rows = [
        (each.name, f"{each.auc:.2f}", f"{each.low:.2f} to {each.high:.2f}", str(each.knowing), str(each.without),
         ", ".join(each.fooled_by))
        for each in detectors(reports)
    ]  # fmt: skip
    return Table(
        title="Which metrics detect knowledge that was kept",
        columns=("Metric", "AUC", "95 % interval", "models that know", "models that do not", "Fooled by"),
        rows=tuple(rows),
        note="AUC: how probably a model that kept what Original knows is further from the references, towards Original, "
        "than one that was retrained. 0.5 is a coin. Fooled by: controls that it distinguishes from retrained models with an AUC "
        "below 0.75. IDI and the verdict are tested on the same models that they were designed against.",
    )


def model_verdicts(reports: Sequence[AuditReport]) -> Table:
    """A row for each model: the word, IDI with its interval, and what the verdict rests on beside it."""
    rows = tuple(
        (
            report.about["control"],
            f"{report.about['seed']}.{report.about.get('draw', 0)}",
            report.verdict,
            _idi(report),
            _share(report, "UA"),
            _share(report, "TA"),
            _share(report, "recovery"),
        )
        for report in reports
    )
    first = next((report.inside for report in reports if report.inside is not None), None)
    note = "Seed: that of Original, then the number of the unlearning. IDI: zero is the mean of the references; 95 % interval."
    if first is not None:
        note += f" {first.references} references, tolerance {first.tolerance:g}"
        note += "." if first.resolution is None else f", resolution {first.resolution:.2f}."
    setting = reports[0].about["setting"] if reports else "no model"
    columns = ("Method", "Seed", "Verdict", "IDI", "UA %", "TA %", "recovery %")
    return Table(f"{setting}: verdicts", columns, rows, note)


def found_table(reports: Sequence[AuditReport]) -> Table:
    """One line for each model: the word, IDI with its interval, and the word's meaning."""
    rows = [(r.about["control"], r.verdict.replace("_", " "), _idi(r), WORDS[r.verdict]) for r in reports]
    return Table(
        title=f"{reports[0].about['setting']}: what was found" if reports else "no model",
        columns=("Model", "Verdict", "IDI (95 % interval)", "In words"),
        rows=tuple(rows),
        note="IDI is the knowledge of the forgotten data that is left inside: 1 is what Original knew, 0 what Retrain knows, "
        "which never saw them.",
    )


def _idi(report: AuditReport) -> str:
    if report.idi is None or report.idi.value is None:
        return "undetermined"
    return with_interval(report.idi.value, report.idi.interval)


def _share(report: AuditReport, name: str) -> str:
    value = report.metrics.get("unlearned", {}).get(name)
    return "none" if value is None else f"{100 * value:.1f}"
