"""The page of a study: methods side by side, what they cost, what their blocks know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from residua.compare import Rules
from residua.compare.explanations import explained
from residua.record import Record
from residua.report.catalogue import COLUMNS
from residua.report.controls import control_reports
from residua.report.figures.curves import colour_of, method_curves
from residua.report.figures.scatter import (
    Point,
    embeddings,
    frontier,
    scatter_figure,
    scatter_text,
    tsne_figure,
)
from residua.report.figures.style import drawing, svg
from residua.report.figures.trajectories import mean_course, trajectory_figure, trajectory_text
from residua.report.page.audits import Picture
from residua.report.page.rendering import render
from residua.report.plain import TONES
from residua.report.studies import Rows, by_setting, courses, method_means, role_of
from residua.report.table import setting_line

# What a verdict rests on: without these no verdicts are shown.
RESTS_ON = {"information", "accuracy", "outputs", "perturbed", "representation"}
# Methods that are ticked at first, beside those that have a role.
TICKED = 4
# Trajectories of more would cover each other.
MOST_COURSES = 6
# Of one t-SNE picture among many.
POINTS = 300
# What a page is about comes first, and is seen on a phone.
SHOWN = (*sorted(COLUMNS, key=lambda column: column[1] != "IDI"), ("RTE s", "RTE", 1, 1))


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None


@dataclass(frozen=True)
class Method:
    """A row of the table: name, role, cells, how many models, and the verdicts on them."""

    name: str
    role: str | None
    cells: tuple[Cell, ...]
    n: int
    verdicts: tuple[tuple[str, str, int], ...]


def study_page(records: Sequence[Record], title: str = "Study", rows: Rows | None = None) -> str:
    """The page as one string; a section for each setting. `rows` are the `study_rows` of the records, if you have them."""
    groups = by_setting(records, rows)
    with drawing():
        sections = [_section(*group, number) for number, group in enumerate(groups)]
    entries = [(column, explained(name)) for column, name, *_ in SHOWN]
    shown = {column for section in sections for column in section["columns"]}
    command = next((record.command for record in records if record.command), "")
    software = ", ".join(f"{name} {value}" for name, value in records[0].software.items())
    return render(
        "study.html", title=title, sections=sections, command=command, software=software, models=len(records),
        entries=[(column, entry) for column, entry in entries if entry and column in shown],
        records=[(record.name, record.sha256) for record in records],
    )  # fmt: skip


def _section(records: Sequence[Record], rows: Rows, number: int) -> dict[str, Any]:
    labels = list(dict.fromkeys(row["method"] for row in rows))
    values = {
        label: {
            name: [factor * row[name] for row in rows if row["method"] == label and name in row]
            for _, name, factor, _ in SHOWN
        }
        for label in labels
    }
    labels.sort(key=lambda label: _place(label, values[label]["IDI"]))
    shown = [column for column in SHOWN if any(column[1] in row for row in rows)]
    verdicts = _verdicts(records)
    methods = [
        Method(
            name=label,
            role=role_of(label),
            cells=tuple(_cell(values[label][name], digits) for _, name, _, digits in shown),
            n=sum(row["method"] == label for row in rows),
            verdicts=verdicts.get(label, ()),
        )
        for label in labels
    ]
    return {
        "title": setting_line(records[0]).split(", seed ")[0],
        "seeds": len({row["seed"] for row in rows}),
        "columns": [column for column, *_ in shown],
        "methods": methods,
        "with_verdicts": bool(verdicts),
        "gaps": any(cell.value is None for method in methods for cell in method.cells),
        "best": _best(values),
        "plots": _plots(values, number),
        "curves": _curves(records, values, number),
        "trajectories": _trajectories(records, number),
        "tsne": _tsne(records, number),
    }


def _cell(values: Sequence[float], digits: int) -> Cell:
    if not values:
        return Cell("none", None)
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return Cell(f"{mean(values):.{digits}f}{spread}", mean(values))


def _verdicts(records: Sequence[Record]) -> dict[str, tuple[tuple[str, str, int], ...]]:
    """By method: the words, how they are toned, and of how many models; where the records are made for it."""
    if any(not set(record.readings) >= RESTS_ON for record in records):
        return {}
    # Compact records keep only the means of further families, whose intervals would be too short to clear a model:
    # `residua study verdicts` judges from the store.
    if not all(any(name.startswith("representation.") for name in record.arrays) for record in records):
        return {}
    found: dict[str, dict[str, int]] = {}
    for report in control_reports(records, Rules()):
        words = found.setdefault(report.about["control"], {})
        words[report.verdict] = words.get(report.verdict, 0) + 1
    return {
        label: tuple((word.replace("_", " "), TONES.get(word, "bad"), n) for word, n in words.items())
        for label, words in found.items()
    }


Values = Mapping[str, Mapping[str, Sequence[float]]]


def _best(values: Values) -> str:
    """The first thing to know: which methods leave least inside."""
    known = {
        label: mean(own["IDI"]) for label, own in values.items() if own["IDI"] and role_of(label) is None
    }
    if not known:
        return ""
    least, most = min(known, key=lambda label: abs(known[label])), max(known, key=lambda label: known[label])
    return (
        f"How much is left inside, from 0 (what a model that never saw the data knows) to 1 (what the model knew before): "
        f"of {len(known)} methods, {least} comes nearest to 0 ({known[least]:.2f}), and {most} leaves most "
        f"({known[most]:.2f}). The column IDI has all."
    )


def _place(label: str, indices: Sequence[float]) -> tuple[int, float]:
    """References, Original and Random first, then methods from the one that leaves least; those without an IDI last."""
    role = role_of(label)
    if role is not None:
        return 0, ("reference", "original", "random").index(role)
    return (1, abs(mean(indices))) if indices else (2, 0.0)


def _plots(values: Values, number: int) -> list[tuple[str, Picture, str]]:
    """IDI against accuracy, run time and recovery, where they were measured."""
    wanted = (
        ("ta", "TA", "test accuracy, %", True, False, "Useful and forgetful"),
        ("rte", "RTE", "run time, seconds", False, True, "Fast and forgetful"),
        ("recovery", "recovery", "recovered accuracy, %", None, False, "What can be brought back"),
    )
    plots = []
    for key, name, words, larger, log, title in wanted:
        # Random is far from everything, and Original took no time to unlearn.
        left_out = ("Random", "Original") if log else ("Random",)
        points = [
            Point(label, mean(own[name]), mean(own["IDI"]), _spread(own[name]), _spread(own["IDI"]), role_of(label) or "other")
            for label, own in values.items()
            if own[name] and own["IDI"] and label not in left_out and (not log or min(own[name]) > 0)
        ]  # fmt: skip
        if len(points) < 2:
            continue
        figure = scatter_figure(points, x=words, y="IDI", larger=larger, log=log)
        caption = f"Each point is a method, with the standard deviation over seeds; {' and '.join(left_out)} left out."
        if larger is not None:
            names = ", ".join(each.name for each in frontier(points, larger))
            caption += f" Frontier, which no method beats on both sides: {names or 'none'}."
        drawn = svg(figure, f"{key}{number}", scatter_text(points, words, "IDI"))
        plots.append((title, Picture(drawn), caption))
    return plots


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _curves(records: Sequence[Record], values: Values, number: int) -> dict[str, Any] | None:
    """Mean curves of all methods, and who is ticked."""
    found = method_means(records)
    if found is None:
        return None
    lines, blocks = found.lines, found.blocks
    roles = {label: role for label in lines if (role := role_of(label))}
    near = sorted((label for label in lines if label not in roles and values[label]["IDI"]),
                  key=lambda label: abs(mean(values[label]["IDI"])))  # fmt: skip
    ticked = {*roles, *near[:TICKED]}
    figure = method_curves(lines, blocks, found.ceiling, roles)
    text = f"Information of blocks {', '.join(map(str, blocks))} of {len(lines)} models, at most {found.ceiling:.3f} nats. A table below has the numbers."
    return {
        "picture": Picture(svg(figure, f"curves{number}", text)),
        "id": f"curves-of-{number}",
        "choices": [(i, label, colour_of(i, roles.get(label)), label in ticked) for i, label in enumerate(lines)],
        "blocks": blocks,
        "lines": lines,
    }  # fmt: skip


def _trajectories(records: Sequence[Record], number: int) -> dict[str, Any] | None:
    """The way of each method whose records have it, epoch by epoch, and where each ends."""
    found = {label: mean_course(runs) for label, runs in courses(records).items()}
    if not found:
        return None
    figure = trajectory_figure(found)
    return {
        "picture": Picture(svg(figure, f"courses{number}", trajectory_text(found))),
        "id": f"courses-of-{number}",
        "choices": [(i, label, colour_of(i, role_of(label)), i < MOST_COURSES) for i, label in enumerate(found)],
        "rows": [(label, len(rows), *(100 * float(x) for x in rows[-1])) for label, rows in found.items()],
    }  # fmt: skip


def _tsne(records: Sequence[Record], number: int) -> Picture | None:
    """How the encoder of one model of each method sees samples, where that was measured."""
    first: dict[str, Record] = {}
    for record in records:
        if "tsne.coordinates" in record.arrays:
            first.setdefault(record.method.label, record)
    pictures = embeddings(first, POINTS)
    if len(pictures) < 2:
        return None
    text = f"Samples in two dimensions, the forgotten ones coloured, as the encoders of {len(pictures)} methods see them."
    return Picture(svg(tsne_figure(pictures, columns=5), f"tsne{number}", text))
