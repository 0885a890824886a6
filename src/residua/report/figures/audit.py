"""Figures of an audit: information over blocks, IDI on a line, what comes back after treatments, and t-SNE pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from residua.report.audit import AuditReport, CurvePart
from residua.report.figures.style import COLOURS, MARKERS, canvas, short
from residua.report.text import A_REFERENCE, Known, Treatment, known_methods, role_name
from residua.roles import references_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from residua.record import Record

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
    values = {role: np.array(list(curve.blocks.values())) for role, curve in curves.items()}
    if zeros:
        zero = np.mean([values[role] for role in zeros], axis=0)
        for role, alpha in (("original", 0.10), ("unlearned", 0.22)):
            if role in curves:
                axes.fill_between(places, zero, values[role], color=COLOURS[role], alpha=alpha, lw=0)
    for role in sorted(curves, key=lambda role: role == "unlearned"):
        kind = "reference" if references_in([role]) else role
        style, marker = KINDS[kind]
        label = "References" if kind == "reference" else role_name(role)
        # Original is drawn broad and below, so that a model with the same curve does not hide it.
        broad, alpha = (5.5, 0.55) if kind == "original" else (1.8, 1.0)
        axes.plot(places, values[role], style, marker=marker, ms=5, color=COLOURS[kind], lw=broad, alpha=alpha,
                  label=None if role in zeros[1:] else label)  # fmt: skip
        if intervals := curves[role].intervals:
            low, high = np.array([intervals[block] for block in curves[role].blocks]).T
            axes.vlines(places + OFFSETS[kind], low, high, color=COLOURS[kind], lw=2.2, alpha=0.5)
    ends = [end for curve in curves.values() for pair in curve.intervals.values() for end in pair]
    ends += [value for curve in curves.values() for value in curve.blocks.values()]
    scale(axes, ends, first.ceiling)
    axes.set_xticks(places, [f"block {block}" for block in first.blocks])
    axes.margins(x=0.08)
    axes.grid(axis="y")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2 if width < 500 else 4, fontsize=9.5)
    return figure


def scale(axes: Axes, values: Sequence[float], ceiling: float) -> None:
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


def curves_text(curves: Mapping[str, CurvePart]) -> str:
    """The figure in words."""
    first = next(iter(curves.values()))
    last = list(first.blocks)[-1]
    values = "; ".join(f"{role_name(role)} {list(curve.blocks.values())[-1]:.3f}" for role, curve in curves.items())
    return (
        f"Information of each block about what was to be forgotten, at most {first.ceiling:.3f} nats. "
        f"In the last, block {last}: {values}. A table below has all blocks."
    )


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
        f"A line from 0, what {A_REFERENCE[report.against]} knows, to 1, what the model knew before. This model is at {index.value:.2f}, "
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


# Points of one t-SNE picture: more only make a page heavy.
MOST_POINTS = 600


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
        dots = [(x, "reference", "References", 15) for x in each.references]
        dots += [(each.original, "original", "Original", 8), (each.unlearned, "unlearned", "Unlearned", 9)]
        values = [100 * x for x, *_ in dots]
        axes.plot([min(values), max(values)], [row, row], color=COLOURS["faint"], lw=2, zorder=1)
        for number, (x, role, words, size) in enumerate(dots):
            named = words if not row and (role != "reference" or not number) else None
            axes.plot(100 * x, row, MARKERS[role], color=COLOURS[role], ms=size, label=named, linestyle="none",
                      mew=2 if role == "reference" else 0.8)  # fmt: skip
        axes.annotate(each.words, (0, row - 0.27), fontsize=9.5, color=COLOURS["ink"])
    axes.set(xlim=(-2, 102), ylim=(len(found) - 0.5, -0.75), yticks=[])
    axes.set_xlabel("forgotten answered correctly afterwards, %")
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, fontsize=9.5)
    return figure


def treatments_text(found: Sequence[Treatment]) -> str:
    """The figure in words."""
    each = found[0]
    references = ", ".join(f"{100 * value:.0f}" for value in each.references) or "none"
    return (
        f"Per cent of the forgotten that are answered correctly after {len(found)} treatments. After the first, "
        f"{each.words}: this model {100 * each.unlearned:.0f}, references {references}, Original "
        f"{100 * each.original:.0f}. A table below has all."
    )
