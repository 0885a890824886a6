"""Figures of information: a line for each model over its blocks, and IDI on a line of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from residua.report.audit import AuditReport, CurvePart
from residua.report.figures.style import COLOURS, MARKERS, canvas, colour_of, dash_of, short
from residua.report.methods import MethodCurves, role_of
from residua.report.text import Known, a_reference, known_methods, role_name
from residua.roles import references_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Intervals stand a little beside their block, so that those of several models can be told apart.
OFFSETS = {"unlearned": 0.035, "original": -0.035, "reference": 0.0, "random": 0.0, "start": 0.0}
KINDS = {
    "unlearned": ("-", "o"),
    "original": ("-", "s"),
    "reference": ("-", "v"),
    "random": (":", "D"),
    "start": (":", "P"),
}


def curves_figure(curves: Mapping[str, CurvePart], width: float = 430, height: float = 280) -> Figure:
    """The models of one audit. Shaded: what Original knows beyond the references, and what this model does of it."""
    figure, axes = canvas(width, height)
    first = next(iter(curves.values()))
    zeros = references_in(curves) or [role for role in curves if role == "random"]
    places = np.arange(len(first.blocks))
    ceiling = first.ceiling
    zero = np.mean([_values(curves[role]) for role in zeros], axis=0) if zeros else None
    if zero is not None:
        for role, alpha in (("original", 0.10), ("unlearned", 0.22)):
            if role in curves:
                axes.fill_between(places, zero, _values(curves[role]), color=COLOURS[role], alpha=alpha, lw=0)
    for role in sorted(curves, key=lambda role: role == "unlearned"):
        _line(axes, places, curves[role], role, first_of_kind=role not in zeros[1:])
    ends = [end for curve in curves.values() for pair in curve.intervals.values() for end in pair]
    ends += [value for curve in curves.values() for value in curve.blocks.values()]
    _scale(axes, ends, ceiling)
    axes.set_xticks(places, [f"block {block}" for block in first.blocks])
    axes.margins(x=0.08)
    axes.grid(axis="y")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2 if width < 500 else 4, fontsize=9.5)
    return figure


def _scale(axes: Axes, values: Sequence[float], ceiling: float) -> None:
    """Limit the axis to what the curves need, since IDI is in their distances; the ceiling is named where it is above."""
    low, high = min(values), max(values)
    pad = 0.25 * ((high - low) or ceiling or 1.0)
    top = high + pad
    grey = COLOURS["muted"]
    if ceiling <= top:
        axes.axhline(ceiling, color=grey, lw=1, ls=(0, (1, 2)))
    words = f"{'' if ceiling <= top else '↑ '}H(Y) = {ceiling:.3f}: all there is to know"
    axes.annotate(words, (0.99, min(ceiling, top)), xytext=(0, -11), xycoords=("axes fraction", "data"), fontsize=9,
                  textcoords="offset points", ha="right", color=grey)  # fmt: skip
    axes.set(ylim=(max(0.0, low - pad), max(top, min(ceiling, top))), ylabel="nats")


def _line(axes: Axes, places: np.ndarray, curve: CurvePart, role: str, first_of_kind: bool) -> None:
    kind = "reference" if references_in([role]) else role
    style, marker = KINDS[kind]
    label = ("References" if kind == "reference" else role_name(role)) if first_of_kind else None
    # Original is drawn broad and below, so that a model with the same curve does not hide it.
    broad = 5.5 if kind == "original" else 1.8
    axes.plot(places, _values(curve), style, marker=marker, ms=5, color=COLOURS[kind], label=label, lw=broad,
              alpha=0.55 if kind == "original" else 1.0)  # fmt: skip
    if curve.intervals:
        ends = np.array([curve.intervals[block] for block in curve.blocks]).T
        beside = places + OFFSETS[kind]
        axes.vlines(beside, ends[0], ends[1], color=COLOURS[kind], lw=2.2, alpha=0.5)


def curves_text(curves: Mapping[str, CurvePart]) -> str:
    """The figure in words."""
    first = next(iter(curves.values()))
    last = list(first.blocks)[-1]
    values = "; ".join(f"{role_name(role)} {list(curve.blocks.values())[-1]:.3f}" for role, curve in curves.items())
    return (
        f"Information of each block about what was to be forgotten, at most {first.ceiling:.3f} nats. "
        f"In the last, block {last}: {values}. A table below has all blocks."
    )


def method_curves(found: MethodCurves) -> Figure:
    """Every method of a study, each in a group of its own that a page can show and hide; roles have fixed colours."""
    figure, axes = canvas(560, 330)
    places = np.arange(len(found.blocks))
    for number, (label, values) in enumerate(found.lines.items()):
        role = role_of(label)
        style, marker = KINDS[role] if role else (dash_of(number), "o")
        colour = COLOURS[colour_of(number, role)]
        lines = axes.plot(places, values, linestyle=style, marker=marker, ms=4.5, color=colour)
        lines[0].set_gid(f"series:{number}")
    _scale(axes, [value for values in found.lines.values() for value in values], found.ceiling)
    axes.set_xticks(places, [f"block {block}" for block in found.blocks])
    axes.grid(axis="y")
    return figure


def _values(curve: CurvePart) -> np.ndarray:
    return np.array(list(curve.blocks.values()))


# What is drawn, and whether as it is stored: UA is an error, and its complement is easier to compare with TA.
PANELS = (("on the forgotten, %", 0, True), ("on test data of the rest, %", 2, False))


def trajectory_figure(courses: Mapping[str, np.ndarray], width: float = 560, height: float = 300) -> Figure:
    """Accuracy on the forgotten and on test data after each epoch; each method in a group that a page can hide."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    for axes, (words, column, turned) in zip(figure.subplots(1, 2), PANELS, strict=True):
        for number, (label, rows) in enumerate(courses.items()):
            values = 100 * (1 - rows[:, column] if turned else rows[:, column])
            colour = COLOURS[colour_of(number, role_of(label))]
            lines = axes.plot(1 + np.arange(len(rows)), values, dash_of(number), marker="o", ms=4, color=colour)
            lines[0].set_gid(f"series:{number}")
        axes.set(xlabel="epoch", title=f"Accuracy {words}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(y=0.08)
        axes.grid(axis="y")
    return figure


# Height of the line alone and what known methods add to it, in points; and the same in units of the upright axis.
HEIGHT, MORE = 128.0, 84.0
BOTTOM, TOP = -1.0, 0.95
UNIT = (TOP - BOTTOM) / HEIGHT
# Wide of a letter of the names of known methods, in points.
LETTER = 4.9


def idi_line(report: AuditReport, width: float = 700) -> Figure:
    """IDI on a line: 0 is the references, each a tick; 1 is Original; the audited model with its interval between them.

    Known methods stand on a second line below, since they were measured elsewhere. The report has an IDI.
    """
    index = report.idi
    assert index is not None
    assert index.value is not None
    known = known_methods(report)
    figure, axes = canvas(width, HEIGHT + (MORE if known else 0))
    low, high = index.interval or (index.value, index.value)
    places = [0.0, 1.0, low, high, *(known.methods.values() if known else ()), *_references(report), *_start(report)]
    left, right = min(places), max(places)
    pad = 0.07 * (right - left)
    axes.set(xlim=(left - pad, right + pad), ylim=(BOTTOM - (MORE * UNIT if known else 0), TOP), yticks=[], xticks=[])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.plot([left - pad, right + pad], [0, 0], color=COLOURS["muted"], lw=1.2, zorder=1)
    inside = report.inside
    if inside is not None and inside.references:
        band = [max(-inside.tolerance, left - pad), inside.tolerance]
        axes.fill_between(band, -0.2, 0.2, color=COLOURS["reference"], alpha=0.13, lw=0)
    zeros = _references(report) or [0.0]
    own = "random" if report.against == "none" else "reference"
    axes.plot(_start(report), [0] * len(_start(report)), MARKERS["start"], color=COLOURS["start"], ms=9)
    axes.plot(zeros, [0] * len(zeros), MARKERS["reference"], color=COLOURS[own], ms=20, mew=2.4)
    axes.plot([1, 1], [0, -0.36], color=COLOURS["original"], lw=1.2)
    axes.plot([1], [-0.36], MARKERS["original"], color=COLOURS["original"], ms=9)
    axes.plot([low, high], [0, 0], color=COLOURS["unlearned"], lw=7, alpha=0.35, solid_capstyle="butt")
    axes.plot([index.value], [0], MARKERS["unlearned"], color=COLOURS["unlearned"], ms=13, mec=COLOURS["paper"])
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
        list(known.methods.values()), [level] * len(known.methods), MARKERS["other"], color=COLOURS["other"], ms=6
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
    began = "".join(f" The start of training is at {each:.2f}." for each in _start(report))
    return (
        f"A line from 0, what {a_reference(report)} knows, to 1, what the model knew before. This model is at {index.value:.2f}, "
        f"with the interval {low:.2f} to {high:.2f}.{marked}{began}{below}"
    )


def _start(report: AuditReport) -> list[float]:
    """The IDI of the weights that Original's training started from, where they were given."""
    return [] if report.start is None or report.start.value is None else [report.start.value]


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
