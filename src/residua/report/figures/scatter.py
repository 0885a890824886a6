"""Points in a plane: methods of a study with the frontier, and t-SNE pictures of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from residua.report.figures.style import COLOURS, MARKERS, canvas, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from residua.record import Record


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
        axes.errorbar(
            each.x, each.y, each.dy or None, each.dx or None, fmt="none", ecolor=colour, alpha=0.4, lw=1
        )
        marker = "v" if each.role == "reference" else MARKERS[each.role]
        (dot,) = axes.plot([each.x], [each.y], marker, color=colour, ms=7, mec=COLOURS["paper"])
        dot.set_gid(f"series:{number}")
    axes.set(xlabel=x, ylabel=y)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter(lambda value, place: "")
    axes.margins(0.1)
    axes.grid()
    _name(axes, points)
    return figure


def _plain(value: float, place: float | None) -> str:
    return f"{value:g}"


def _name(axes: Axes, points: Sequence[Point]) -> None:
    """Names beside the points, the crowded ones left out: the table has them all."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    spots = axes.transData.transform([(each.x, each.y) for each in points])
    taken = [(float(x), float(y)) for x, y in spots]
    placed: list[tuple[float, float, float]] = []
    for each, (left, bottom) in sorted(
        zip(points, list(taken), strict=True), key=lambda p: p[0].role == "other"
    ):
        text = short(each.name, 14)
        wide = 5.2 * len(text)
        box = axes.bbox
        sides = [left + 7, left - wide - 8] if left + wide + 8 <= box.x1 else [left - wide - 8]

        def crowded(start: float, wide: float = wide, left: float = left, bottom: float = bottom) -> bool:
            others = [(x, y) for x, y in taken if (x, y) != (left, bottom)]
            near = any(start - 4 < x < start + wide + 4 and abs(y - bottom) < 7 for x, y in others)
            return near or any(
                start < s + w and s < start + wide and abs(b - bottom) < 11 for s, w, b in placed
            )

        start = next((side for side in sides if not crowded(side)), None)
        if start is None:
            continue
        placed.append((start, wide, bottom))
        axes.annotate(text, (each.x, each.y), xytext=(start - left, -3), textcoords="offset points", fontsize=8.5,
                      color=COLOURS["ink"])  # fmt: skip


def scatter_text(points: Sequence[Point], x: str, y: str) -> str:
    """The figure in words."""
    return f"{len(points)} methods: {y} against {x}. The table above has every number."


def embeddings(
    records: Mapping[str, Record], most: int = MOST_POINTS
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
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
