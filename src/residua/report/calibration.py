"""The calibration of the estimator as a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from residua.record import Record
from residua.report.table import Table

# Bars of a calibrated estimator: bias in nats or as a fraction of I, and the fraction of intervals that hold I.
BIAS, BIAS_SHARE, COVERED = 0.02, 0.1, (0.90, 0.98)
# As in measure/information/summary.py, which needs PyTorch.
FEW_OF_A_LABEL = 100


def bars_missed(reading: Mapping[str, float]) -> list[str]:
    """The bars that a problem's readings miss. Too wide an interval is a miss, too, but where I is 0: an interval that ends
    there always holds it."""
    missed = []
    if abs(reading["bias"]) > max(BIAS, BIAS_SHARE * reading["truth"]):
        missed.append("bias")
    low, high = COVERED
    if reading["coverage"] < low or (reading["coverage"] > high and reading["truth"] > 0):
        missed.append("coverage")
    return missed


def calibration_table(records: Sequence[Record]) -> Table:
    """Truth, bias, spread and coverage of each problem, and whether they are within the bars."""
    rows = []
    for record in records:
        problem, reading = record.setting.problem or {}, record.readings["information"]
        rows.append(
            (
                problem["name"],
                str(problem["n"]),
                str(problem["dimensions"]),
                str(problem["labels"]),
                f"{reading['truth']:.4f}",
                f"{reading['bias']:+.4f}",
                f"{reading['spread']:.4f}",
                f"{100 * reading['coverage']:.3g}",
                f"{reading['repeats']:.0f}",
                _bars(reading, problem.get("beyond") or _warned(problem)),
            )
        )
    return Table(
        title="The information curve on problems whose information is known, nats",
        columns=("Problem", "n", "d", "labels", "I", "bias", "spread", "coverage %", "repeats", "bars"),
        rows=tuple(rows),
        note=f"Coverage: how often the 95 % interval held the true I. Where I is 0 an interval that ends at 0 "
        f"always holds it. Bars: bias within {BIAS:g} nats or {100 * BIAS_SHARE:g} % of I, coverage "
        f"{100 * COVERED[0]:g} to {100 * COVERED[1]:g} %.",
    )


def _warned(problem: Mapping[str, Any]) -> str:
    """Warnings of curves: few samples of a label, and readings by network critics alone."""
    each = problem["n"] // problem["labels"]
    if problem["labels"] > 2 and each < FEW_OF_A_LABEL:
        return f"{each} samples of a label are few; the curve warns"
    return "read by network critics alone; the curve warns" if problem["kind"] == "texture" else ""


def _bars(reading: Mapping[str, float], beyond: str) -> str:
    missed = bars_missed(reading)
    text = f"missed: {', '.join(missed)}" if missed else "met"
    return f"{text} ({beyond})" if missed and beyond else text


def calibration_figure(records: Sequence[Record], path: Path) -> None:
    """Readings against truth, and the coverage of each problem."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [record.name for record in records]
    for record in records:
        reading = record.readings["information"]
        ceiling = reading["ceiling"]
        left.errorbar(
            reading["truth"] / ceiling, reading["mean"] / ceiling, yerr=2 * reading["spread"] / ceiling, fmt="o", ms=4
        )
    right.plot([100 * record.readings["information"]["coverage"] for record in records], range(len(names)), "o")
    left.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    left.set(xlabel="true I / H(Y)", ylabel="mean reading / H(Y), with two deviations", title="Reading against truth")
    right.axvspan(90, 98, color="0.92", zorder=0)
    right.set_yticks(range(len(names)), names)
    right.set(xlabel="coverage of the 95 % interval, %", title="Coverage", xlim=(80, 101))
    figure.savefig(path, format=path.suffix[1:], dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
