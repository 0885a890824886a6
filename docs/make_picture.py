"""Draws docs/picture.svg: what models say of the forgotten class, and what their blocks still know of it.

    python docs/make_picture.py [RECORDS_DIR]

The folder holds records with accuracies and information curves of Original, Retrain, HD and COLA, as `residua measure --metrics IDI`,
`catalogue` and `study` write them; records of several seeds are averaged.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean
from typing import Any

from residua.record import Record
from residua.report.table import setting_line

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records/methods-class"
PICTURE = ROOT / "docs/picture.svg"
# From the one that knows most; colours that stay apart for most kinds of colour blindness, and in grey.
MODELS = {"Original": "#222222", "HD": "#d55e00", "COLA": "#56b4e9", "Retrain": "#0072b2"}


def read(folder: Path) -> dict[str, list[Record]]:
    """The records of each model that is drawn, whatever the case of its label."""
    names = {label.lower(): label for label in MODELS}
    by_label: dict[str, list[Record]] = {label: [] for label in MODELS}
    for path in sorted(folder.glob("*.json")):
        record = Record.read(path)
        label = names.get(record.method.label.lower())
        if label and "information" in record.readings:
            by_label[label].append(record)
    missing = [label for label, records in by_label.items() if not records]
    if missing:
        raise SystemExit(f"{folder} has no information curve of {', '.join(missing)}; give another folder")
    return by_label


def numbers(records: list[Record]) -> tuple[float, dict[int, float]]:
    """Accuracy on the forget set in per cent, and the nats of each block; means over seeds."""
    blocks = sorted(
        int(name[1:]) for name in records[0].readings["information"] if name[0] == "I" and name[1:].isdigit()
    )
    answers = mean(100 * (1 - record.readings["accuracy"]["UA"]) for record in records)
    return answers, {b: mean(r.readings["information"][f"I{b}"] for r in records) for b in blocks}


def draw(folder: Path, path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "residua", "font.size": 10})
    by_label = read(folder)
    seeds = len(by_label["Original"])
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    says, knows = figure.subplots(1, 2, width_ratios=(1, 1.5))
    values = {label: numbers(records) for label, records in by_label.items()}
    _bars(says, list(MODELS), [[values[label][0]] for label in MODELS], "{:.0f}")
    says.set(title="What it says", ylabel="accuracy on the forgotten class, %", ylim=(0, 110), xticks=[])
    blocks = list(values["Original"][1])
    _bars(knows, list(MODELS), [[values[label][1][b] for b in blocks] for label in MODELS], "{:.2f}")
    top = 1.12 * max(max(nats.values()) for _, nats in values.values())
    knows.set(title="What its blocks know", ylabel="information, nats", ylim=(0, top))
    knows.set_xticks(range(len(blocks)), [f"block {b}" for b in blocks])
    figure.legend(*knows.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    setting = setting_line(by_label["Original"][0])
    if seeds > 1:
        setting = f"{setting.split(', seed ')[0]}; mean of {seeds} trainings"
    figure.supxlabel(setting, fontsize=8)
    # No date and no version of matplotlib: the same records draw the same file.
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _bars(axes: Any, labels: list[str], heights: list[list[float]], form: str) -> None:
    width = 0.8 / len(labels)
    for i, (label, values) in enumerate(zip(labels, heights, strict=True)):
        places = [j + (i - (len(labels) - 1) / 2) * width for j in range(len(values))]
        bars = axes.bar(places, values, width * 0.92, color=MODELS[label], label=label)
        axes.bar_label(bars, [form.format(value) for value in values], fontsize=8, padding=1)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDS, PICTURE)
