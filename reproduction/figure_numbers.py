"""Numbers behind the paper's figures, as rows from our records; drawings follow from these and from pictures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.cases import SCALES, Case, case_of, chosen_group, differences
from reproduction.commands import command_for
from reproduction.figure_list import FigureSpec
from reproduction.numbers import Number, numbers_of
from reproduction.quantities import Found, Reader
from reproduction.record_index import RecordIndex
from reproduction.tables import Part, Question, Row
from residua.errors import InputError

RATIOS = ("1:1", "1:5", "1:20", "all")
ENDS = ("Original", "Retrain")
ATTACK = "U-LiRA"


@dataclass(frozen=True)
class Picture:
    """A t-SNE: coordinates (n, 2), which points were to be forgotten, and their classes."""

    places: np.ndarray
    forgotten: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Panel:
    """One setting of a figure: its numbers, and the t-SNE pictures where it shows some."""

    case: Case
    part: Part
    pictures: dict[str, Picture]
    about: dict[str, Any]

    kind: str = ""

    @property
    def enough(self) -> bool:
        """True if there is something to draw: more than Original and Retrain, and more than one point of a line."""
        if self.kind == "tsne":
            return len(self.pictures) > 1
        of: dict[str, int] = {}
        for row in self.part.rows:
            if row.ours is not None and (row.method not in ENDS or self.kind in ("curves", "accuracy")):
                of[row.method] = of.get(row.method, 0) + 1
        return any(number > (0 if self.kind == "metrics" else 1) for number in of.values())

    @property
    def fullness(self) -> int:
        """Number of quantities that most of the methods have."""
        rows = [row for row in self.part.rows if row.method not in ENDS]
        by_quantity: dict[str, list[bool]] = {}
        for row in rows:
            by_quantity.setdefault(row.quantity, []).append(row.ours is not None)
        return sum(2 * sum(there) > len(there) for there in by_quantity.values())

    def value(self, method: str, quantity: str) -> Row | None:
        return next((r for r in self.part.rows if (r.method, r.quantity) == (method, quantity)), None)


def figure_panels(
    spec: FigureSpec, index: RecordIndex, scale: str | None = None, question: Question | None = None
) -> list[Panel]:
    """The panels of a figure, each from the largest scale whose records hold enough of it, or from that which was named.

    A setting without records has no rows.
    """
    panels = []
    for case in spec.cases:
        scales = SCALES if scale is None else (scale,)
        made = (_panel(spec, case, index, each, question or Question()) for each in scales)
        tried = [panel for panel in made if panel.part.rows]
        nothing = _panel(spec, case, index, scale, question or Question())
        enough = [panel for panel in tried if panel.enough]
        # Of figures of metrics, the first that shows the most of them.
        shown = max(enough, key=lambda panel: panel.fullness) if spec.kind == "metrics" and enough else None
        panels.append(shown or next(iter(enough or tried), nothing))
    return panels


def _panel(spec: FigureSpec, case: Case, index: RecordIndex, scale: str | None, asked: Question) -> Panel:
    group = chosen_group(index, case, scale)
    curves = spec.kind in ("curves", "accuracy", "ratio")
    if group is None:
        command = command_for(case, scale, curves=curves)
        part = Part(case.words, case.words, (), (), (f"no records of {case.words}",), (command,))
        return Panel(case, part, {}, {}, spec.kind)
    reader = Reader(group, case, asked.reference, asked.last, asked.family)
    theirs = _paper(spec, case)
    rows = []
    for method in (*ENDS, *spec.methods):
        for quantity in _quantities(spec, reader):
            ours, of_scale = reader(method, quantity), group.scale
            if quantity == ATTACK:
                ours, of_scale = _attack(index, case, group.scale, method)
            number = theirs.get((method, quantity))
            rows.append(
                Row(spec.label, case.words, method, quantity, number.mean if number else None,
                    number.std if number else None, ours.mean, ours.std, ours.n,
                    of_scale if ours.mean is not None else None, ours.why, group.dataset == case.dataset)
            )  # fmt: skip
    pictures = _pictures(spec, reader) if spec.kind == "tsne" else {}
    missing = dict.fromkeys(f"{row.method} {row.quantity}: {row.why}" for row in rows if row.ours is None and row.why)
    if spec.kind == "tsne" and len(pictures) < 2:
        missing = {"no t-SNE was recorded": None, **missing}
    lacking = bool(missing)
    part = Part(
        case.words, case.words, tuple(rows), tuple(differences(case, group)), tuple(missing),
        (command_for(case, group.scale, curves=curves),) if lacking else (), group.dataset == case.dataset,
    )  # fmt: skip
    return Panel(case, part, pictures, {"blocks": blocks_there(reader)} | _data(reader), spec.kind)


def _data(reader: Reader) -> dict[str, Any]:
    group = reader.group
    same = group.scale == "full" and group.dataset == reader.case.dataset
    return {"data": group.task.dataset, "same": same, "scale": group.scale}


def _quantities(spec: FigureSpec, reader: Reader) -> list[str]:
    if spec.kind == "metrics":
        return list(spec.quantities)
    if spec.kind == "tsne":
        return ["IDI"]
    if spec.kind == "recovery":
        return ["recovery", "IDI"]
    if spec.kind == "ratio":
        return [f"IDI ratio={ratio}" for ratio in RATIOS]
    what = "I" if spec.kind == "curves" else "accuracy"
    numbered = [f"{what} Block{block}" for block in blocks_there(reader)]
    return [*numbered, "IDI"] if spec.kind == "curves" else numbered


def blocks_there(reader: Reader) -> list[int]:
    """The last blocks of which every retrained model and Original have a curve, counted as the paper counts."""
    most = reader.case.blocks
    for last in range(most, 0, -1):
        try:
            for label in ENDS:
                for model in reader.models(label) or _none(label):
                    reader.curve(model, last)
        except InputError:
            continue
        return list(range(most - last + 1, most + 1))
    return []


def _none(label: str) -> list[Any]:
    raise InputError(f"no record of {label}")


def _pictures(spec: FigureSpec, reader: Reader) -> dict[str, Picture]:
    """Embeddings of the first model of each method."""
    found = {}
    for method in (*ENDS, *spec.methods):
        for model in reader.models(method)[:1]:
            arrays = model.readings["tsne"].arrays if "tsne" in model.readings else {}
            if "coordinates" in arrays:
                forgotten = np.asarray(arrays["forgotten"]).astype(bool)
                found[method] = Picture(np.asarray(arrays["coordinates"]), forgotten, np.asarray(arrays["labels"]))
    return found


def _attack(index: RecordIndex, case: Case, scale: str, method: str) -> tuple[Found, str]:
    """The AUC of U-LiRA, whose records have shadow models in place of a task, and the scale that it is of.

    It costs many trainings, so that of another scale serves where there is none of this one; then of the same one for
    every method, and the row names it.
    """
    there = [
        record
        for record in index.attacks
        if (record.setting.network or {}).get("network") == case.network and ATTACK in record.readings[ATTACK]
    ]
    scales = Counter(record.setting.scale for record in there)
    if scales and scale not in scales:
        scale = max(scales, key=lambda each: (scales[each], each))
    values = [r.readings[ATTACK][ATTACK] for r in there if (r.method.label, r.setting.scale) == (method, scale)]
    return Found(values[0], None, 1) if values else Found(why="U-LiRA was not run of it"), scale


def _paper(spec: FigureSpec, case: Case) -> dict[tuple[str, str], Number]:
    """The paper's numbers of this panel, from the table that has them."""
    if spec.table is None and spec.kind in ("recovery", "tsne", "curves"):
        table = "tab:single_class_cifar10" if case.dataset == "cifar10" else "tab:single_class_cifar100"
        if case.scenario == "random":
            table = "tab:random_sample_unlearning"
        elif case.classes > 1:
            table = "tab:multi_class_unlearning"
    elif spec.table is None:
        return {}
    else:
        table = spec.table
    return {(n.method, n.quantity): n for n in numbers_of(table) if case_of(n.table, n.setting) == case}
