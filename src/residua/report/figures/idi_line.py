"""IDI on a line: 0 is the references, each a tick; 1 is Original; the audited model with its interval between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from residua.report.audit_data import AuditReport, references_in
from residua.report.figures.style import COLOURS, MARKERS, canvas, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def idi_line(report: AuditReport, width: float = 700, others: Mapping[str, float] | None = None) -> Figure:
    """`others` are known methods by name, with their IDI. The report has an IDI."""
    index = report.idi
    assert index is not None
    assert index.value is not None
    figure, axes = canvas(width, 128)
    low, high = index.interval or (index.value, index.value)
    places = [0.0, 1.0, low, high, *(others or {}).values(), *_references(report)]
    left, right = min(places), max(places)
    pad = 0.07 * (right - left)
    axes.set(xlim=(left - pad, right + pad), ylim=(-1.0, 0.95), yticks=[])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.axhline(0, color=COLOURS["muted"], lw=1.2, zorder=1)
    if report.inside is not None and report.inside.margin < 1:  # a wider one passes nobody
        margin = report.inside.margin
        axes.axvspan(
            max(-margin, left - pad), margin, 0.41, 0.61, color=COLOURS["reference"], alpha=0.13, lw=0
        )
    zeros = _references(report) or [0.0]
    own = "reference" if index.zero == "reference" else "random"
    axes.plot(zeros, [0] * len(zeros), MARKERS["reference"], color=COLOURS[own], ms=20, mew=2.4)
    axes.plot([1, 1], [0, -0.36], color=COLOURS["original"], lw=1.2)
    axes.plot([1], [-0.36], MARKERS["original"], color=COLOURS["original"], ms=9)
    for name, value in (others or {}).items():
        axes.plot([value], [0], MARKERS["other"], color=COLOURS["other"], ms=7)
        axes.annotate(short(name, 12), (value, 0.16), ha="center", fontsize=8, color=COLOURS["muted"])
    axes.plot([low, high], [0, 0], color=COLOURS["unlearned"], lw=7, alpha=0.35, solid_capstyle="butt")
    axes.plot(
        [index.value], [0], MARKERS["unlearned"], color=COLOURS["unlearned"], ms=13, mec=COLOURS["paper"]
    )
    _label(axes, index.value, 0.42, f"this model: {index.value:.2f}", "unlearned", (left, right))
    zero = "never saw it" if index.zero == "reference" else "random network"
    _label(axes, 0.0, -0.86, f"0: {zero}", own, (left, right))
    _label(
        axes, 1.0, -0.86, "1: before" if width < 500 else "1: before unlearning", "original", (left, right)
    )
    axes.set_xticks([])
    return figure


def idi_line_text(report: AuditReport) -> str:
    """The figure in words."""
    index = report.idi
    assert index is not None
    low, high = index.interval or (index.value, index.value)
    zero = "a model that never saw the data" if index.zero == "reference" else "a network with random weights"
    ticks = _references(report)
    marked = f" References are at {', '.join(f'{each:.2f}' for each in ticks)}." if len(ticks) > 1 else ""
    return (
        f"A line from 0, what {zero} knows, to 1, what the model knew before. This model is at {index.value:.2f}, "
        f"with the interval {low:.2f} to {high:.2f}.{marked}"
    )


def _references(report: AuditReport) -> list[float]:
    """Where single references are: each against the mean of the others."""
    if report.inside is not None and report.inside.left_out:
        return list(report.inside.left_out)
    return [0.0] if references_in(report.metrics) else []


def _label(axes: object, x: float, y: float, text: str, role: str, ends: tuple[float, float]) -> None:
    """Text at a place of the line that stays within its ends."""
    place = (x - ends[0]) / ((ends[1] - ends[0]) or 1.0)
    side = "left" if place < 0.2 else "right" if place > 0.8 else "center"
    axes.annotate(text, (x, y), ha=side, color=COLOURS[role], fontsize=11, fontweight="bold")  # type: ignore[attr-defined]
