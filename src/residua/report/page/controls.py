"""The page of controls: verdicts on models whose truth is known, and what each metric makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from residua.compare.explanations import explained
from residua.compare.verdicts import WORDS
from residua.report.audit_data import AuditReport
from residua.report.controls import KNOWING, fooled_table, verdict_table
from residua.report.figures.dots import detectors_figure
from residua.report.figures.style import drawing, svg
from residua.report.meta import WITHOUT, detectors
from residua.report.page.audits import Picture
from residua.report.page.rendering import render
from residua.report.plain import TONES


@dataclass(frozen=True)
class Control:
    """A model whose truth is known: how many of its seeds got each word, its bar, and whether that is met."""

    name: str
    truth: str
    counts: tuple[tuple[str, str, int], ...]
    n: int
    bar: str
    met: str


def controls_page(reports: Sequence[AuditReport]) -> str:
    """The page as one string."""
    table, fooled, found = verdict_table(reports), fooled_table(reports), detectors(reports)
    controls = []
    for name, *_, bar, met in table.rows:
        words = Counter(report.verdict for report in reports if report.about["control"] == name)
        counts = tuple(
            (word.replace("_", " "), TONES.get(word, "bad"), words[word]) for word in WORDS if words[word]
        )
        controls.append(Control(name, truth(name), counts, sum(words.values()), bar, met))
    with drawing():
        picture = None
        if found:
            text = f"How well {len(found)} metrics tell models that kept the knowledge from retrained ones; the table has the numbers."
            picture = Picture(svg(detectors_figure(found), "trust", text))
    bars = [each for each in controls if each.met]
    return render(
        "controls.html",
        title="Can the audit be trusted?",
        setting=table.title,
        note=table.note,
        controls=controls,
        kept=sum(each.met == "met" for each in bars),
        bars=len(bars),
        audits=len(reports),
        fooled=[(row[0], [_heat(cell) for cell in row[1:]]) for row in fooled.rows],
        fooled_columns=[(name, truth(name)) for name in fooled.columns[1:]],
        detectors=[(each, explained(each.name)) for each in found],
        picture=picture,
    )


def truth(name: str) -> str:
    """What is known of a control."""
    if name in KNOWING:
        return "knows it"
    return "never saw it" if name in WITHOUT else "in between"


def _heat(cell: str) -> tuple[str, float]:
    return cell, float(cell) / 100 if cell != "none" else 0.0
