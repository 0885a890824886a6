"""IDI on a line: 0 is the references, each a tick; 1 is Original; the audited model with its interval between them.

Known methods stand on a second line below, since they were measured elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from residua.report.audit import AuditReport
from residua.report.figures.style import COLOURS, MARKERS, canvas, short
from residua.report.text import Known, a_reference, known_methods
from residua.roles import references_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Height of the line alone and what known methods add to it, in points; and the same in units of the upright axis.
HEIGHT, MORE = 128.0, 84.0
BOTTOM, TOP = -1.0, 0.95
UNIT = (TOP - BOTTOM) / HEIGHT
# Wide of a letter of the names of known methods, in points.
LETTER = 4.9


def idi_line(report: AuditReport, width: float = 700) -> Figure:
    """The report has an IDI."""
    index = report.idi
    assert index is not None
    assert index.value is not None
    known = known_methods(report)
    figure, axes = canvas(width, HEIGHT + (MORE if known else 0))
    low, high = index.interval or (index.value, index.value)
    places = [0.0, 1.0, low, high, *(known.methods.values() if known else ()), *_references(report)]
    left, right = min(places), max(places)
    pad = 0.07 * (right - left)
    axes.set(
        xlim=(left - pad, right + pad),
        ylim=(BOTTOM - (MORE * UNIT if known else 0), TOP),
        yticks=[],
        xticks=[],
    )
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.plot([left - pad, right + pad], [0, 0], color=COLOURS["muted"], lw=1.2, zorder=1)
    inside = report.inside
    if inside is not None and inside.references:
        band = [max(-inside.tolerance, left - pad), inside.tolerance]
        axes.fill_between(band, -0.2, 0.2, color=COLOURS["reference"], alpha=0.13, lw=0)
    zeros = _references(report) or [0.0]
    own = "random" if report.against == "none" else "reference"
    axes.plot(zeros, [0] * len(zeros), MARKERS["reference"], color=COLOURS[own], ms=20, mew=2.4)
    axes.plot([1, 1], [0, -0.36], color=COLOURS["original"], lw=1.2)
    axes.plot([1], [-0.36], MARKERS["original"], color=COLOURS["original"], ms=9)
    axes.plot([low, high], [0, 0], color=COLOURS["unlearned"], lw=7, alpha=0.35, solid_capstyle="butt")
    axes.plot(
        [index.value], [0], MARKERS["unlearned"], color=COLOURS["unlearned"], ms=13, mec=COLOURS["paper"]
    )
    _label(axes, index.value, 0.42, f"this model: {index.value:.2f}", "unlearned", (left, right))
    zero = "random network" if report.against == "none" else "never saw it"
    _label(axes, 0.0, -0.86, f"0: {zero}", own, (left, right))
    before = "1: before" if width < 500 else "1: before unlearning"
    _label(axes, 1.0, -0.86, before, "original", (left, right))
    if known:
        _second_line(axes, known, (left - pad, right + pad), width)
    return figure


def _second_line(axes: Axes, known: Known, ends: tuple[float, float], width: float) -> None:
    """Known methods as marks, with the names for which there is room; all are in the text."""
    grey = COLOURS["muted"]
    level = BOTTOM - 46 * UNIT
    words = f"{'for orientation, ' if width >= 500 else ''}in the paper: {known.setting}"
    axes.annotate(words, (ends[0], level + 17 * UNIT), fontsize=9.5, color=grey)
    axes.plot(ends, [level, level], color=COLOURS["faint"], lw=1.2, zorder=1)
    axes.plot(
        list(known.methods.values()),
        [level] * len(known.methods),
        MARKERS["other"],
        color=COLOURS["other"],
        ms=6,
    )
    letter = LETTER * (ends[1] - ends[0]) / width
    taken: list[tuple[int, float, float]] = []
    for name, value in known.methods.items():
        half = (len(name) / 2 + 0.6) * letter
        for row in (0, 1):
            fits = ends[0] <= value - half and value + half <= ends[1]
            if fits and all(r != row or value + half < a or value - half > b for r, a, b in taken):
                taken.append((row, value - half, value + half))
                spot = (value, level - (15 + 11 * row) * UNIT)
                axes.annotate(short(name, 12), spot, ha="center", fontsize=8.5, color=grey)
                break
    if known.random is not None and known.random < ends[0]:
        words = f"← random weights {known.random:.2f}"
        axes.annotate(words, (ends[0], level - 37 * UNIT), fontsize=8.5, color=grey)


def idi_line_text(report: AuditReport) -> str:
    """The figure in words."""
    index = report.idi
    assert index is not None
    low, high = index.interval or (index.value, index.value)
    ticks = _references(report)
    marked = f" References are at {', '.join(f'{each:.2f}' for each in ticks)}." if len(ticks) > 1 else ""
    known = known_methods(report)
    below = f" {known.sentence}" if known else ""
    return (
        f"A line from 0, what {a_reference(report)} knows, to 1, what the model knew before. This model is at {index.value:.2f}, "
        f"with the interval {low:.2f} to {high:.2f}.{marked}{below}"
    )


def _references(report: AuditReport) -> list[float]:
    """IDI of single references, each against the mean of the others."""
    if report.inside is not None and report.inside.chance is not None:
        return list(report.inside.chance.left_out)
    return [0.0] if references_in(report.metrics) else []


def _label(axes: Axes, x: float, y: float, text: str, role: str, ends: tuple[float, float]) -> None:
    """Text at a place of the line that stays within its ends."""
    place = (x - ends[0]) / ((ends[1] - ends[0]) or 1.0)
    side = "left" if place < 0.2 else "right" if place > 0.8 else "center"
    axes.annotate(text, (x, y), ha=side, color=COLOURS[role], fontsize=11, fontweight="bold")
