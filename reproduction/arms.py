"""Arms: UA, TA, IDI and the angle of each block against the size of Original's weights (gauge) or the dose, from records.

`python -m reproduction gauge` and `python -m reproduction dose` print the table; `--out FILE` draws it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.cases import own_case
from reproduction.drawings import DASHES, write
from reproduction.quantities import Reader
from reproduction.record_index import Group, Model, RecordIndex
from residua.report.figures.style import COLOURS, SERIES
from residua.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARMS = ("gauge", "dose")
# The rule of the gauged arm: RL's UA in the paper, and the fraction of TA that may be lost.
RULE_UA, RULE_TA = 0.999, 0.01
AXES = {"gauge": "factor of Original's weights", "dose": "lr x steps"}
ABOUT = {
    "gauge": "The paper's settings, started from one function with weights of another size: convolutions in front of norms times "
    "the factor, outputs unchanged.",
    "dose": "Dose: learning rate x steps, of COLA that of the collapse. No setting is chosen here.",
}


@dataclass(frozen=True)
class Point:
    """One model: its method, the factor, the place on the axis, and what was read; angles in degrees by block."""

    method: str
    factor: float
    place: float
    seed: int
    values: dict[str, float]
    angles: dict[str, float]


def arm_points(index: RecordIndex, arm: str) -> dict[str, list[Point]]:
    """The models of one arm, by the scale of their study."""
    found = {}
    for group in index.groups:
        reader = Reader(group, own_case(group))
        points = [point for model in group.models if (point := _point(reader, model, arm)) is not None]
        if points:
            found[group.scale] = points
    return found


def _point(reader: Reader, model: Model, arm: str) -> Point | None:
    named = re.fullmatch(r"(.+) x ([\d.e-]+)", model.label)
    if named is None or ("factor" in model.fields) != (arm == "gauge"):
        return None
    factor = float(named[2])
    values = {name: value for name, value in reader.metrics(model)[0].items() if name in ("UA", "TA")}
    idi, _ = reader.idi(model, last=reader.case.last)
    values |= {} if idi is None else {"IDI": idi}
    place = factor if arm == "gauge" else _dose(model.fields, reader.group)
    return Point(named[1], factor, place, model.seed, values, _angles(model, reader.group.original_of(model)))


def _dose(fields: dict[str, Any], group: Group) -> float:
    """Learning rate x steps on the retained data; a last batch that is not full is none."""
    prefix = "collapse_" if "collapse_lr" in fields else ""
    steps = fields[f"{prefix}epochs"] * max(1, group.task.size("retain") // fields["batch"])
    return float(fields[f"{prefix}lr"] * steps)


def _angles(model: Model, original: Model | None) -> dict[str, float]:
    """Degrees between the weights of each block and Original's, norms included."""
    if original is None or not all("weights" in each.readings for each in (model, original)):
        return {}
    ours, theirs = (each.readings["weights"].arrays for each in (model, original))
    found = {}
    for part in sorted(name.removeprefix("part.") for name in ours if re.fullmatch(r"part\.\d+", name)):
        a, b = ours[f"part.{part}"], theirs[f"part.{part}"]
        cosine = float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
        found[part] = math.degrees(math.acos(min(1.0, cosine)))
    return found


def arm_table(points: Sequence[Point], arm: str, scale: str) -> Table:
    """A row for each method and factor, the mean over seeds."""
    blocks = sorted({block for point in points for block in point.angles}, key=int)
    rows = []
    for method, factor in dict.fromkeys((point.method, point.factor) for point in points):
        own = [point for point in points if (point.method, point.factor) == (method, factor)]
        read = [
            _text([100 * p.values["UA"] for p in own if "UA" in p.values], 1),
            _text([100 * p.values["TA"] for p in own if "TA" in p.values], 1),
            _text([p.values["IDI"] for p in own if "IDI" in p.values], 2, spread=True),
            *(_text([p.angles[block] for p in own if block in p.angles], 1) for block in blocks),
        ]
        rows.append((method, f"{own[0].place:.3g}", *read, str(len(own))))
    columns = ("Method", AXES[arm], "UA %", "TA %", "IDI", *(f"block {b}, degrees" for b in blocks), "n")
    note = f"{ABOUT[arm]} Degrees: between the weights of a block and Original's, norms included."
    return Table(f"The {arm}: {scale}", columns, tuple(rows), f"{note} {_seen(points, arm)}")


def _text(values: list[float], digits: int, spread: bool = False) -> str:
    if not values:
        return ""
    more = f" ± {stdev(values):.{digits}f}" if spread and len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{more}"


def _means(points: Sequence[Point]) -> dict[str, dict[float, float]]:
    """Mean IDI by method and factor."""
    found: dict[str, dict[float, float]] = {}
    for method, factor in dict.fromkeys((point.method, point.factor) for point in points):
        own = [p.values["IDI"] for p in points if (p.method, p.factor) == (method, factor) and "IDI" in p.values]
        if own:
            found.setdefault(method, {})[factor] = mean(own)
    return found


def _seen(points: Sequence[Point], arm: str) -> str:
    """The sentence that the table ends in."""
    ends = {
        method: (by_factor[max(by_factor)], by_factor[min(by_factor)])
        for method, by_factor in _means(points).items()
        if len(by_factor) > 1
    }
    words = "; ".join(
        f"{method} from {most:.2f} to {least:.2f}" if arm == "gauge" else f"{method} from {least:.2f} to {most:.2f}"
        for method, (most, least) in ends.items()
    )
    what = "from the largest to the smallest weights" if arm == "gauge" else "from the smallest to the largest dose"
    moved = max((abs(most - least) for most, least in ends.values()), default=0.0)
    answer = "cannot be told" if not ends else "seen" if moved > 0.1 else "not seen"
    return f"IDI depends on it: **{answer}** ({what}: {words or 'one factor only'})."


def chosen_factor(index: RecordIndex) -> str:
    """The rule of the gauged arm on CIFAR-10, by RL's UA and TA alone; "" where there are no records of it."""
    for group in index.groups:
        reader = Reader(group, own_case(group))
        tried = [p for model in group.models if (p := _point(reader, model, "gauge")) and p.method == "RL"]
        if group.dataset != "cifar10" or not tried:
            continue
        before = mean(reader.metrics(model)[0]["TA"] for model in group.labelled("Original"))
        fit = [p.factor for p in tried if p.values["UA"] >= RULE_UA and before - p.values["TA"] <= RULE_TA]
        if not fit:
            return "The rule chooses no factor: RL reaches a UA of 99.9 % at none of them without losing a point of TA."
        return f"The rule chooses the factor {max(fit):g}: python -m reproduction run small-gauged-{max(fit):g}."
    return ""


def arm_figure(points: Sequence[Point], arm: str) -> Figure:
    """Panels of IDI, UA and TA against the factor or the dose, and where known the angle of the last block."""
    from matplotlib.figure import Figure

    panels = ["IDI", "UA", "TA", *(["angle"] if any(point.angles for point in points) else [])]
    figure = Figure(figsize=(3.0 * len(panels), 2.8), layout="constrained")
    every = np.atleast_1d(figure.subplots(1, len(panels)))
    for axes, panel in zip(every, panels, strict=True):
        for number, method in enumerate(dict.fromkeys(point.method for point in points)):
            line = _line([point for point in points if point.method == method], panel)
            places, values = zip(*sorted(line), strict=True) if line else ((), ())
            style = {"color": COLOURS[SERIES[number % len(SERIES)]], "ls": DASHES[number % len(DASHES)]}
            axes.plot(places, values, marker="o", ms=3.5, lw=1.4, label=method, **style)
        axes.set_xscale("log")
        axes.set_title("last block, degrees" if panel == "angle" else panel)
        axes.set_xlabel(AXES[arm])
        axes.grid(axis="y")
    every[0].axhline(0, color=COLOURS["reference"], lw=1, ls="--")
    every[0].legend(fontsize=7)
    return figure


def _line(points: Sequence[Point], panel: str) -> list[tuple[float, float]]:
    """Means over seeds by place."""
    by_place: dict[float, list[float]] = {}
    for point in points:
        if panel == "angle" and point.angles:
            by_place.setdefault(point.place, []).append(point.angles[max(point.angles, key=int)])
        elif panel in point.values:
            by_place.setdefault(point.place, []).append(point.values[panel])
    return [(place, mean(values)) for place, values in by_place.items()]


def draw_arm(points: Sequence[Point], arm: str, out: Path) -> Path:
    """Draw into a file whose ending says the format."""
    return write(lambda: arm_figure(points, arm), out)
