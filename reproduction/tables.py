"""Tables: the paper's numbers beside ours, from records alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reproduction.cases import SCALES, Case, case_of, chosen_group, differences
from reproduction.commands import command_for
from reproduction.labels import ROWS, SETTINGS
from reproduction.numbers import Number, numbers_of
from reproduction.quantities import Found, Reader
from reproduction.record_index import RecordIndex
from reproduction.statements import AIM, ENOUGH, chance, interval
from residua.compare.information import spearman
from residua.report.table import Table
from residua.roles import role_of


@dataclass(frozen=True)
class Row:
    """One number of the paper and ours; None where either has none. `why` says what is missing of ours."""

    table: str
    setting: str
    method: str
    quantity: str
    paper: float | None
    paper_std: float | None
    ours: float | None
    ours_std: float | None
    n: int
    scale: str | None
    why: str = dataclasses.field(default="", compare=False)
    own: bool = dataclasses.field(default=True, compare=False)  # the data are the paper's

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in ("why", "own")}

    @property
    def difference(self) -> float | None:
        """Ours less the paper's; None across data sets."""
        return None if self.paper is None or self.ours is None or not self.own else self.ours - self.paper


@dataclass(frozen=True)
class Part:
    """One setting of a table: its rows, what differs from the paper, and what would make what is missing."""

    setting: str
    words: str
    rows: tuple[Row, ...]
    differs: tuple[str, ...]
    missing: tuple[str, ...]
    commands: tuple[str, ...]
    own: bool = True  # the data are the paper's
    apart: float | None = None  # the largest IDI of a further Retrain

    @property
    def there(self) -> bool:
        """True if there are numbers of ours, beside those of Original and Retrain, whose IDI is known without any record."""
        return any(row.ours is not None and row.method not in ("Original", "Retrain") for row in self.rows)

    @property
    def settings(self) -> bool:
        return any(row.table in SETTINGS for row in self.rows)

    @property
    def known(self) -> int:
        """Number of the paper's numbers that records have."""
        return sum(row.ours is not None for row in self.rows)

    @property
    def scale(self) -> str | None:
        return next((row.scale for row in self.rows if row.scale), None)


@dataclass(frozen=True)
class Question:
    """A question to records that departs from the paper's: another zero of IDI, more blocks, other critics."""

    reference: str = "Retrain"
    last: int | None = None
    family: str | None = None


def table_parts(
    label: str, index: RecordIndex, scale: str | None = None, question: Question | None = None
) -> list[Part]:
    """Every setting of one of the paper's tables of results."""
    numbers = numbers_of(label)
    settings = dict.fromkeys(number.setting for number in numbers)
    return [
        _largest(case_of(label, setting), index, [n for n in numbers if n.setting == setting], scale, question)
        for setting in settings
    ]


def _largest(
    case: Case, index: RecordIndex, numbers: list[Number], scale: str | None, question: Question | None
) -> Part:
    """The part of the largest scale that has at least half as many of these numbers as any other, or of the one named.

    Where a large scale has records of two or three methods only, a smaller one that has all of them says more.
    """
    tried = [one_part(case, index, numbers, each, question) for each in (SCALES if scale is None else (scale,))]
    known = [part for part in tried if part.there]
    if not known:
        return one_part(case, index, numbers, scale, question)
    most = max(part.known for part in known)
    return next(part for part in known if 2 * part.known >= most)


def one_part(
    case: Case, index: RecordIndex, numbers: list[Number], scale: str | None = None, question: Question | None = None
) -> Part:
    """The numbers of one setting, with ours beside them, and our methods that the paper's table leaves out."""
    group = chosen_group(index, case, scale)
    first = numbers[0]
    if group is None:
        rows = tuple(_row(number, Found(), None) for number in numbers)
        why = f"no records of {case.words}" + (f" at the {scale} scale" if scale else "")
        return Part(first.setting, case.words, rows, (), (why,), (command_for(case, scale),))
    asked = question or Question()
    reader = Reader(group, case, asked.reference, asked.last, asked.family)
    own = group.dataset == case.dataset
    rows = tuple(_row(number, _ask(reader, number), group.scale, own) for number in _with_ours(numbers, reader))
    missing = dict.fromkeys(f"{row.method} {row.quantity}: {row.why}" for row in rows if row.ours is None and row.why)
    return Part(
        first.setting,
        case.words,
        rows,
        tuple(differences(case, group)),
        tuple(missing),
        (command_for(case, group.scale, curves=_needs_curves(numbers)),) if missing else (),
        own,
        chance(reader),
    )


def _with_ours(numbers: list[Number], reader: Reader) -> list[Number]:
    """The paper's numbers, and rows without one for methods of the paper that its table leaves out and we have."""
    quantities = list(dict.fromkeys(number.quantity for number in numbers))
    if not {"UA", "IDI"} & set(quantities):
        return numbers
    there = {number.method for number in numbers}
    retrained = [model.label for model in reader.group.models if role_of(model.label) == "reference"]
    known = dict.fromkeys((*retrained, *ROWS))
    more = [label for label in known if label not in there and reader.models(label)]
    empty = float("nan")
    first = numbers[0]
    return numbers + [
        Number(first.table, first.setting, label, quantity, empty, None) for label in more for quantity in quantities
    ]


def _ask(reader: Reader, number: Number) -> Found:
    if number.quantity.endswith("_min") and number.quantity != "RTE_min":
        # The table of run times has shares of the retained data in place of methods; any model will do.
        ratio = {"Full": "all"}.get(number.method, number.method)
        return reader("Original", f"{number.quantity} {ratio}")
    if number.method == "Original" and number.quantity == "RTE_min":
        return Found(why="")  # the time of its training is not kept with the model
    return reader(number.method, number.quantity)


def _row(number: Number, ours: Found, scale: str | None, own: bool = True) -> Row:
    paper = None if number.mean != number.mean else number.mean
    return Row(
        number.table,
        number.setting,
        number.method,
        number.quantity,
        paper,
        number.std,
        ours.mean,
        ours.std,
        ours.n,
        scale if ours.mean is not None else None,
        ours.why,
        own,
    )


def _needs_curves(numbers: Iterable[Number]) -> bool:
    """True if blocks or ratios are asked for that the main curve does not have."""
    words = ("IDI full", "IDI n=", "std Block", "std 1:", "Block")
    return any(number.quantity.startswith(words) for number in numbers)


def shown(part: Part, spread: bool = False) -> Table:
    """Methods by quantities, each cell with the paper's number, ours, and on the same data the difference."""
    quantities = list(dict.fromkeys(row.quantity for row in part.rows))
    methods = list(dict.fromkeys(row.method for row in part.rows))
    by_place = {(row.method, row.quantity): row for row in part.rows}
    last = () if part.settings else ("n",)  # no models are behind settings
    rows = []
    for method in methods:
        own = [by_place.get((method, quantity)) for quantity in quantities]
        most = max((row.n for row in own if row is not None), default=0)
        rows.append((method, *(cell(row, spread) for row in own), *(str(most) for _ in last)))
    return Table(
        title=f"{part.rows[0].table}, {part.setting}" + (f" ({part.scale} scale)" if part.scale else ""),
        columns=("Method", *quantities, *last),
        rows=tuple(rows),
        note=notes(part),
    )


def sentence(part: Part) -> str:
    """The end of a table: whether the paper's order of methods is seen in it."""
    claim = "The paper's order of methods"
    if part.settings or not part.there:
        return ""
    if not part.own:
        return f"{claim}: cannot be told, the data are not the paper's."
    if (part.apart or 0) >= 1:
        return f"{claim}: cannot be told. Retrains differ as much as Original and Retrain: chance rules this table."
    ends = ("Original", "Retrain", "Random")
    both = [r for r in part.rows if r.quantity == "IDI" and r.method not in ends and r.difference is not None]
    theirs = {row.method: row.paper for row in both if row.paper is not None}
    ours = {row.method: row.ours for row in both if row.ours is not None}
    found = spearman(theirs, ours)
    if found is None:
        return f"{claim}: cannot be told at this scale, which has no IDI of three methods here."
    answer = "seen" if found[0] >= AIM else "not seen"
    answer = answer if found[1] >= ENOUGH else "cannot be told at this scale"
    return f"{claim}: {answer} (Spearman of IDI {found[0]:.2f} over {found[1]} methods{interval(theirs, ours)})."


def notes(part: Part) -> str:
    """Notes on the cells: their meaning, differences, gaps, and the command that fills them."""
    lines = [
        "Each cell: the paper's setting → ours."
        if part.settings
        else "Each cell: the paper's number → ours (the difference, on the same data); n: our models of the method."
    ]
    lines += [f"What differs: {'; '.join(part.differs)}."] if part.differs else []
    if part.missing:
        more = f" and {len(part.missing) - 3} more" if len(part.missing) > 3 else ""
        lines.append(f"Missing: {'; '.join(part.missing[:3])}{more}.")
    lines += [f"Made by: {command}" for command in part.commands]
    lines += [end] if (end := sentence(part)) else []
    return "\n".join(lines)


def rows_csv(rows: Iterable[Row]) -> str:
    """A line for each number, with the difference."""
    names = (
        "table",
        "setting",
        "method",
        "quantity",
        "paper",
        "paper_std",
        "ours",
        "ours_std",
        "difference",
        "n",
        "scale",
    )
    lines = tuple(tuple(_plain(getattr(row, name)) for name in names) for row in rows)
    return Table("", names, lines).csv()


def _plain(value: float | str | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def cell(row: Row | None, spread: bool = False) -> str:
    if row is None or (row.paper is None and row.ours is None):
        return ""
    if row.table in SETTINGS:  # learning rates go down to 5e-6
        return " → ".join("-" if value is None else f"{value:.4g}" for value in (row.paper, row.ours))
    digits = 1 if row.quantity in ("UA", "RA", "TA", "MIA") or row.quantity.endswith("_MIA") else 2
    digits = 0 if row.quantity == "order" else 3 if row.quantity.startswith("std") else digits
    paper = number_text(row.paper, row.paper_std if spread else None, digits)
    ours = number_text(row.ours, row.ours_std if spread else None, digits)
    difference = "" if row.difference is None else f" ({row.difference:+.{digits}f})"
    return f"{paper} → {ours}{difference}"


def number_text(value: float | None, std: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")
