"""Information per block: a line for each model, its intervals, the ceiling H(Y), and the areas that make IDI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from residua.report.audit import CurvePart
from residua.report.figures.style import COLOURS, canvas, colour_of, dash_of
from residua.report.methods import MethodCurves, role_of
from residua.report.text import role_name
from residua.roles import references_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Intervals stand a little beside their block, so that those of several models can be told apart.
OFFSETS = {"unlearned": 0.035, "original": -0.035, "reference": 0.0, "random": 0.0}
KINDS = {"unlearned": ("-", "o"), "original": ("-", "s"), "reference": ("-", "v"), "random": (":", "D")}


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
    values = "; ".join(
        f"{role_name(role)} {list(curve.blocks.values())[-1]:.3f}" for role, curve in curves.items()
    )
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
            lines = axes.plot(
                1 + np.arange(len(rows)), values, dash_of(number), marker="o", ms=4, color=colour
            )
            lines[0].set_gid(f"series:{number}")
        axes.set(xlabel="epoch", title=f"Accuracy {words}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(y=0.08)
        axes.grid(axis="y")
    return figure
