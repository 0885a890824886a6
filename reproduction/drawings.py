"""Drawings: the paper's figures from our numbers, in one style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.figure_list import FigureSpec
from reproduction.figure_numbers import ENDS, RATIOS, Panel
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.report.figures.audit import tsne_figure
from residua.report.figures.studies import Point, scatter_figure
from residua.report.figures.style import COLOURS, SERIES, drawing, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
ROLES = {"Original": "original", "Retrain": "reference", "Random": "random"}
WORDS = {"RTE_min": "RTE, minutes", "TA": "TA, %", "MIA": "MIA, %", "U-LiRA": "U-LiRA, AUC", "recovery": "recovery, %"}
DASHES = ("-", "--", "-.", ":")


def checked_format(path: Path) -> Path:
    """A place that a figure can be written to."""
    if path.suffix.lower().lstrip(".") not in FORMATS:
        raise InputError(f"--out {path} has no format for a figure; name a file .pdf, .svg or .png")
    check_place(path)
    return path


def drawn(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    """The figure; panels without records are left out, and a figure without any is refused."""
    there = [panel for panel in panels if panel.enough]
    if not there:
        commands = dict.fromkeys(command for panel in panels for command in panel.part.commands)
        raise InputError(
            f"no records hold what {spec.label} shows ({spec.needs}); make them with: {'; '.join(commands)}"
        )
    return DRAWERS[spec.kind](spec, there)


def save(spec: FigureSpec, panels: Sequence[Panel], out: str | Path) -> Path:
    """Draw into a file whose ending says the format; the same records give the same drawing."""
    return write(lambda: drawn(spec, panels), out)


def write(draw: Callable[[], Figure], out: str | Path) -> Path:
    """Write what `draw` gives, in our style and without a date."""
    path = checked_format(Path(out))
    form = path.suffix.lower().lstrip(".")
    with drawing():
        figure = draw()
        about: dict[str, Any] = {"CreationDate": None} if form == "pdf" else {"Date": None} if form == "svg" else {}
        background = "none" if form == "svg" else "white"
        write_atomically(
            path,
            lambda part: figure.savefig(
                part, format=form, metadata=about, dpi=200, facecolor=background, bbox_inches="tight"
            ),
        )
    return path


def _grid(number: int, width: float = 3.4, height: float = 2.6, columns: int = 3) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    columns = min(columns, number)
    rows = math.ceil(number / columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(np.atleast_1d(np.asarray(figure.subplots(rows, columns, squeeze=False))).ravel())
    for extra in axes[number:]:
        extra.set_visible(False)
    return figure, axes


def _metrics(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    """A panel per metric: our methods as dots with their spread, the paper's as open circles, Retrain as a line."""
    panel = panels[0]
    quantities = [q for q in spec.quantities if any(_ours(panel, m, q) is not None for m in spec.methods)]
    figure, grid = _grid(len(quantities), 2.7, 2.6, 4)
    for axes, quantity in zip(grid, quantities, strict=False):
        for place, method in enumerate(spec.methods):
            row = panel.value(method, quantity)
            colour = COLOURS["unlearned"] if method == "HD" else COLOURS["other"]
            if row is not None and row.ours is not None:
                axes.errorbar(place, row.ours, row.ours_std, fmt="o", ms=6, color=colour, capsize=2)
            if row is not None and row.paper is not None:
                axes.plot([place], [row.paper], "o", ms=7, mfc="none", color=COLOURS["muted"], mew=1)
        values = sorted(v for m in spec.methods if (v := _ours(panel, m, quantity)) is not None)
        if values[-1] > 100 * max(1.0, values[len(values) // 2]):
            # Else a ruined model's JSD leaves nothing to see of the others.
            axes.set_yscale("symlog")
            axes.set_yticks([0.0, 1.0, *(10.0**power for power in range(2, int(math.log10(values[-1])) + 1, 2))])
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        zero = _ours(panel, "Retrain", quantity)
        if zero is not None and quantity not in ("RTE_min", "U-LiRA"):
            axes.axhline(zero, color=COLOURS["reference"], lw=1.2, ls="--")
        axes.set_xticks(range(len(spec.methods)), spec.methods, rotation=50, ha="right", fontsize=8)
        axes.set_title(WORDS.get(quantity, quantity) + _other_scale(panel, spec, quantity))
        axes.grid(axis="y")
    figure.supxlabel("dots: ours; open circles: the paper's; dashed: our Retrain", fontsize=8, color=COLOURS["muted"])
    return figure


def _other_scale(panel: Panel, spec: FigureSpec, quantity: str) -> str:
    """Scale of a quantity, where it is not that of the others."""
    first, own = (
        next((row.scale for m in spec.methods if (row := panel.value(m, q)) and row.scale), None)
        for q in (spec.quantities[0], quantity)
    )
    return f" ({own} scale)" if own not in (None, first) else ""


def _ours(panel: Panel, method: str, quantity: str) -> float | None:
    row = panel.value(method, quantity)
    return None if row is None else row.ours


def _tsne(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    """Classes: what was to be forgotten among the rest. Samples: the forgotten alone, each class in its colour."""
    panel = panels[0]
    named = {}
    for method, picture in panel.pictures.items():
        value = _ours(panel, method, "IDI")
        named[method if value is None else f"{short(method, 10)}, IDI {value:.2f}"] = picture
    columns = min(5, len(named))
    if panel.case.scenario == "class":
        return tsne_figure({name: (each.places, each.forgotten) for name, each in named.items()}, columns)
    figure, grid = _grid(len(named), 2.6, 2.75, columns)
    for axes, (name, each) in zip(grid, named.items(), strict=False):
        for label in np.unique(each.labels):
            which = each.forgotten & (each.labels == label)
            colour = COLOURS[SERIES[int(label) % len(SERIES)]]
            x, y = each.places[which].T
            axes.scatter(x, y, s=10, color=colour, marker="os^D"[int(label) // len(SERIES) % 4], lw=0)
        axes.set(title=name, xticks=[], yticks=[])
    return figure


def _recovery(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    points = []
    for method in (*ENDS, *spec.methods):
        x, y = panels[0].value(method, "recovery"), panels[0].value(method, "IDI")
        if x is not None and y is not None and x.ours is not None and y.ours is not None:
            role = ROLES.get(method, "other")
            points.append(Point(method, x.ours, y.ours, x.ours_std or 0, y.ours_std or 0, role))
    return scatter_figure(
        points, x="forgotten test images answered after a new head was trained, %", y="IDI", larger=None
    )


def _series(number: int, method: str) -> dict[str, Any]:
    role = ROLES.get(method)
    colour = COLOURS[role or SERIES[number % len(SERIES)]]
    return {
        "color": colour,
        "ls": "-" if role else DASHES[number // len(SERIES) % len(DASHES)],
        "lw": 3 if role else 1.4,
    }


def _lines(spec: FigureSpec, panels: Sequence[Panel], what: str, unit: str, area: bool) -> Figure:
    figure, grid = _grid(len(panels), 4.6, 3.6, 2)
    for axes, panel in zip(grid, panels, strict=False):
        blocks = panel.about["blocks"]
        of = {}
        for number, method in enumerate((*ENDS, *spec.methods)):
            values = [_ours(panel, method, f"{what} Block{block}") for block in blocks]
            if not values or any(value is None for value in values):
                continue
            of[method] = np.array(values, float)
            index = _ours(panel, method, "IDI")
            label = method if index is None else f"{method} ({index:.2f})"
            axes.plot(blocks, of[method], marker="o", ms=4, label=label, **_series(number, method))
        if area and set(ENDS) <= of.keys():
            _areas(axes, panel, of)
        axes.set_xticks(blocks, [f"block {block}" for block in blocks])
        axes.set_title(_title(panel), fontsize=9)
        axes.set_ylabel(unit)
        axes.grid(axis="y")
        axes.legend(fontsize=7, ncols=2, loc="lower left")
    return figure


def _title(panel: Panel) -> str:
    """The paper's setting, and what stands in for its data."""
    data = panel.about["data"]
    theirs = panel.case.words
    return theirs if panel.about["same"] else f"{theirs}\n(here: {data}, {panel.part.scale} scale)"


def _areas(axes: Axes, panel: Panel, of: dict[str, np.ndarray]) -> None:
    """The areas that make IDI: what Original knows beyond Retrain over the last blocks, and what the first method keeps of it."""
    last = min(panel.case.last, len(panel.about["blocks"]))
    places = panel.about["blocks"][-last:]
    zero = of["Retrain"][-last:]
    axes.fill_between(places, zero, of["Original"][-last:], color=COLOURS["original"], alpha=0.15, lw=0)
    first = next((method for method in of if method not in ENDS), None)
    if first is not None:
        colour = _series(len(ENDS), first)["color"]  # that of its line
        axes.fill_between(places, zero, of[first][-last:], color=colour, alpha=0.15, lw=0)


def _curves(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    return _lines(spec, panels, "I", "nats", area=True)


def _accuracy(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    return _lines(spec, panels, "accuracy", "share of samples whose label critics name", area=False)


def _ratio(spec: FigureSpec, panels: Sequence[Panel]) -> Figure:
    figure, grid = _grid(1, 5.2, 3.6)
    for number, method in enumerate(spec.methods):
        rows = [panels[0].value(method, f"IDI ratio={ratio}") for ratio in RATIOS]
        places = [i for i, row in enumerate(rows) if row is not None and row.ours is not None]
        values = [row.ours for row in rows if row is not None and row.ours is not None]
        if places:
            grid[0].plot(places, values, marker="o", ms=4, label=method, **_series(number, method))
    grid[0].set_xticks(range(len(RATIOS)), RATIOS)
    grid[0].set(xlabel="forget : retain", ylabel="IDI")
    grid[0].grid(axis="y")
    grid[0].legend(fontsize=8, ncols=3, loc="lower left")
    return figure


DRAWERS: dict[str, Callable[[FigureSpec, Sequence[Panel]], Figure]] = {
    "metrics": _metrics,
    "tsne": _tsne,
    "recovery": _recovery,
    "curves": _curves,
    "accuracy": _accuracy,
    "ratio": _ratio,
}
