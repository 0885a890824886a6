"""Figures of studies: curves and courses of methods, methods as points with the frontier, metrics of controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from residua.report.controls import Detector
from residua.report.figures.audit import KINDS, scale
from residua.report.figures.style import COLOURS, MARKERS, canvas, colour_of, dash_of, short
from residua.report.methods import MethodCurves, role_of
from residua.report.table import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Metrics that IDI is drawn against: the axis, whether larger is better (None: neither), whether it is logarithmic.
AXES = {
    "TA": ("test accuracy, %", True, False),
    "RTE": ("run time, seconds", False, True),
    "RTE.cpu": ("processor time, seconds", False, True),
    "recovery": ("recovered accuracy, %", None, False),
}


@dataclass(frozen=True)
class Point:
    """A method: where it is, how far its seeds scatter (standard deviations), and its role if it has one."""

    name: str
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    role: str = "other"


def points_of(
    values: Mapping[str, Mapping[str, Sequence[float]]], name: str, left_out: Sequence[str] = ("random",)
) -> list[Point]:
    """The methods that have this metric and an IDI, but for those with the roles that are `left_out`."""
    return [
        Point(label, mean(own[name]), mean(own["IDI"]), spread(own[name]), spread(own["IDI"]), role_of(label) or "other")
        for label, own in values.items()
        if own[name] and own["IDI"] and role_of(label) not in left_out and (not name.startswith("RTE") or min(own[name]) > 0)
    ]  # fmt: skip


def metric_figure(points: Sequence[Point], name: str) -> Figure:
    """IDI against one of `AXES`."""
    words, larger, log = AXES[name]
    return scatter_figure(points, x=words, y="IDI", larger=larger, log=log)


def frontier(points: Sequence[Point], larger: bool) -> list[Point]:
    """The methods that no other beats in both: y nearer 0, and x larger (or smaller). Sorted by x."""
    methods = [each for each in points if each.role == "other"]

    def gain(each: Point) -> float:
        return each.x if larger else -each.x

    best = [
        each
        for each in methods
        if not any(
            gain(o) >= gain(each) and abs(o.y) <= abs(each.y) and (gain(o), -abs(o.y)) != (gain(each), -abs(each.y))
            for o in methods
        )
    ]  # fmt: skip
    return sorted(best, key=lambda each: each.x)


def scatter_figure(
    points: Sequence[Point], *, x: str, y: str, larger: bool | None, log: bool = False, width: float = 430
) -> Figure:
    """`larger` says which side of x is better and draws the frontier; None draws none."""
    figure, axes = canvas(width, 320)
    if larger is not None:
        best = frontier(points, larger)
        axes.plot([p.x for p in best], [p.y for p in best], color=COLOURS["other"], lw=7, alpha=0.18)
    for number, each in enumerate(points):
        colour = COLOURS[each.role]
        axes.errorbar(each.x, each.y, each.dy or None, each.dx or None, fmt="none", ecolor=colour, alpha=0.4, lw=1)
        marker = "v" if each.role == "reference" else MARKERS[each.role]
        (dot,) = axes.plot([each.x], [each.y], marker, color=colour, ms=7, mec=COLOURS["paper"])
        dot.set_gid(f"series:{number}")
    axes.set(xlabel=x, ylabel=y)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, place: "")
    axes.margins(0.1)
    axes.grid()
    _name(axes, points)
    return figure


def _name(axes: Axes, points: Sequence[Point]) -> None:
    """Names beside the points, the crowded ones left out: the table has them all."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    spots = axes.transData.transform([(each.x, each.y) for each in points])
    taken = [(float(x), float(y)) for x, y in spots]
    placed: list[tuple[float, float, float]] = []
    for each, (left, bottom) in sorted(zip(points, list(taken), strict=True), key=lambda p: p[0].role == "other"):
        text = short(each.name, 14)
        wide = 5.2 * len(text)
        box = axes.bbox
        sides = [left + 7, left - wide - 8] if left + wide + 8 <= box.x1 else [left - wide - 8]

        def crowded(start: float, wide: float = wide, left: float = left, bottom: float = bottom) -> bool:
            others = [(x, y) for x, y in taken if (x, y) != (left, bottom)]
            near = any(start - 4 < x < start + wide + 4 and abs(y - bottom) < 7 for x, y in others)
            return near or any(start < s + w and s < start + wide and abs(b - bottom) < 14 for s, w, b in placed)

        start = next((side for side in sides if not crowded(side)), None)
        if start is None:
            continue
        placed.append((start, wide, bottom))
        axes.annotate(text, (each.x, each.y), xytext=(start - left, -3), textcoords="offset points", fontsize=8.5,
                      color=COLOURS["ink"])  # fmt: skip


def detectors_figure(found: Sequence[Detector], width: float = 430) -> Figure:
    """The AUC of each metric with its interval; 0.5 is a coin."""
    figure, axes = canvas(width, 60 + 19 * len(found))
    for row, each in enumerate(found):
        blue = COLOURS["reference"]
        axes.plot([each.low, each.high], [row, row], color=blue, lw=5, alpha=0.3, solid_capstyle="butt")
        axes.plot([each.auc], [row], "o", color=blue, ms=6)
    axes.axvline(0.5, color=COLOURS["muted"], lw=1, ls=(0, (1, 2)))
    axes.set(ylim=(len(found) - 0.4, -0.6), xlabel="probability of telling a model that knows (0.5: a coin)")
    axes.set_yticks(range(len(found)), [short(each.name) for each in found])
    axes.grid(axis="x")
    return figure


def index_figure(found: Mapping[str, tuple[Sequence[float], str]], width: float = 430) -> Figure:
    """IDI of methods, each with its seeds as small dots and their mean, the least first. Values, and a role for colour."""
    rows = sorted(found, key=lambda name: mean(found[name][0]))
    figure, axes = canvas(width, 60 + 19 * len(rows))
    for row, name in enumerate(rows):
        values, role = found[name]
        axes.plot(values, [row] * len(values), "o", color=COLOURS[role], ms=4, alpha=0.35)
        axes.plot([mean(values)], [row], "v" if role == "reference" else MARKERS[role], color=COLOURS[role], ms=7)
    for place in (0, 1):
        axes.axvline(place, color=COLOURS["muted"], lw=1, ls=(0, (1, 2)))
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="IDI (0: Retrain, 1: Original)")
    axes.set_yticks(range(len(rows)), [short(name) for name in rows])
    axes.grid(axis="x")
    return figure


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
    scale(axes, [value for values in found.lines.values() for value in values], found.ceiling)
    axes.set_xticks(places, [f"block {block}" for block in found.blocks])
    axes.grid(axis="y")
    return figure


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
