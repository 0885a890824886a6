"""Trajectories: what a method does to a model, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from residua.report.figures.curves import DASHES, colour_of
from residua.report.figures.style import COLOURS, SERIES
from residua.report.studies import role_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What is drawn, and whether as it is stored: UA is an error, and its complement is easier to compare with TA.
PANELS = (("on the forgotten, %", 0, True), ("on test data of the rest, %", 2, False))


def mean_course(runs: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over runs, epoch by epoch, as far as the shortest goes."""
    least = min(map(len, runs))
    return np.mean([run[:least] for run in runs], axis=0)


def trajectory_figure(courses: Mapping[str, np.ndarray], width: float = 560, height: float = 300) -> Figure:
    """Accuracy on the forgotten and on test data after each epoch; each method in a group that a page can hide."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    for axes, (words, column, turned) in zip(figure.subplots(1, 2), PANELS, strict=True):
        for number, (label, rows) in enumerate(courses.items()):
            values = 100 * (1 - rows[:, column] if turned else rows[:, column])
            style = DASHES[number // len(SERIES) % len(DASHES)]
            colour = COLOURS[colour_of(number, role_of(label))]
            lines = axes.plot(1 + np.arange(len(rows)), values, style, marker="o", ms=4, color=colour)
            lines[0].set_gid(f"series:{number}")
        axes.set(xlabel="epoch", title=f"Accuracy {words}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(y=0.08)
        axes.grid(axis="y")
    return figure


def trajectory_text(courses: Mapping[str, np.ndarray]) -> str:
    """The figure in words."""
    return (
        f"Accuracy on the forgotten and on test data after each epoch of {len(courses)} methods. A table below has "
        "where each ends."
    )
