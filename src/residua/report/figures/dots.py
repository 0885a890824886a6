"""Dots on rows: what comes back after each treatment, and how well each metric tells models apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from residua.report.figures.style import COLOURS, MARKERS, canvas, short
from residua.report.meta import Detector
from residua.report.stress import Treatment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        axes.plot(
            [each.low, each.high],
            [row, row],
            color=COLOURS["reference"],
            lw=5,
            alpha=0.3,
            solid_capstyle="butt",
        )
        axes.plot([each.auc], [row], "o", color=COLOURS["reference"], ms=6)
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
        axes.plot(
            [mean(values)], [row], "v" if role == "reference" else MARKERS[role], color=COLOURS[role], ms=7
        )
    for place in (0, 1):
        axes.axvline(place, color=COLOURS["muted"], lw=1, ls=(0, (1, 2)))
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel="IDI (0: Retrain, 1: Original)")
    axes.set_yticks(range(len(rows)), [short(name) for name in rows])
    axes.grid(axis="x")
    return figure
