"""Points in a plane: methods of a study with the frontier, and t-SNE pictures of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from residua.report.controls import Detector
from residua.report.figures.style import COLOURS, MARKERS, canvas, short
from residua.report.methods import role_of
from residua.report.table import spread
from residua.report.text import Treatment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from residua.record import Record

# Metrics that IDI is drawn against: the axis, whether larger is better (None: neither), whether it is logarithmic.
AXES = {
    "TA": ("test accuracy, %", True, False),
    "RTE": ("run time, seconds", False, True),
    "RTE.cpu": ("processor time, seconds", False, True),
    "recovery": ("recovered accuracy, %", None, False),
}
# Points of one t-SNE picture: more only make a page heavy.
MOST_POINTS = 600


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


def embeddings(records: Mapping[str, Record], most: int = MOST_POINTS) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Coordinates, and which samples were to be forgotten, of the models whose record has them; at most so many each."""
    found = {}
    for name, record in records.items():
        places, forgotten = (record.arrays.get(f"tsne.{part}") for part in ("coordinates", "forgotten"))
        if places is not None and forgotten is not None:
            some = np.linspace(0, len(places) - 1, min(most, len(places))).round().astype(int)
            found[name] = (places[some], forgotten[some].astype(bool))
    return found


def tsne_figure(pictures: Mapping[str, tuple[np.ndarray, np.ndarray]], columns: int = 3) -> Figure:
    """One panel per model: coordinates (n, 2) and which samples were to be forgotten."""
    from matplotlib.figure import Figure

    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.75 * rows), layout="constrained")
    grid = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes, (name, (places, forgotten)) in zip(grid, pictures.items(), strict=False):
        for which, colour, size in ((~forgotten, COLOURS["faint"], 5), (forgotten, COLOURS["unlearned"], 8)):
            axes.scatter(*places[which].T, s=size, color=colour, lw=0)
        axes.set(title=short(name), xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(visible=True, color=COLOURS["faint"])
    for axes in grid[len(pictures) :]:
        axes.set_visible(False)
    return figure


def treatments_figure(found: Sequence[Treatment], width: float = 430) -> Figure:
    """Per cent of the forgotten that are answered correctly after each treatment."""
    figure, axes = canvas(width, 70 + 34 * len(found))
    for row, each in enumerate(found):
        values = [100 * x for x in (each.unlearned, each.original, *each.references)]
        axes.plot([min(values), max(values)], [row, row], color=COLOURS["faint"], lw=2, zorder=1)
        named: list[str | None] = [None] * 3 if row else ["Unlearned", "Original", "References"]
        for reference in each.references:
            _dot(axes, 100 * reference, row, "reference", named[2], 15)
            named[2] = None
        _dot(axes, values[1], row, "original", named[1], 8)
        _dot(axes, values[0], row, "unlearned", named[0], 9)
        axes.annotate(each.words, (0, row - 0.27), fontsize=9.5, color=COLOURS["ink"])
    axes.set(xlim=(-2, 102), ylim=(len(found) - 0.5, -0.75), yticks=[])
    axes.set_xlabel("forgotten answered correctly afterwards, %")
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, fontsize=9.5)
    return figure


def _dot(axes: Axes, x: float, y: float, role: str, label: str | None, size: float) -> None:
    axes.plot([x], [y], MARKERS[role], color=COLOURS[role], ms=size, mew=2 if role == "reference" else 0.8,
              label=label, linestyle="none")  # fmt: skip


def treatments_text(found: Sequence[Treatment]) -> str:
    """The figure in words."""
    each = found[0]
    references = ", ".join(f"{100 * value:.0f}" for value in each.references) or "none"
    return (
        f"Per cent of the forgotten that are answered correctly after {len(found)} treatments. After the first, "
        f"{each.words}: this model {100 * each.unlearned:.0f}, references {references}, Original "
        f"{100 * each.original:.0f}. A table below has all."
    )


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
