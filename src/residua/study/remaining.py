"""What is left of a run, in seconds: cells cost what others of their kind and label have cost so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from residua.study.cells import FIRST, Cell

Sort = tuple[str, str]  # kind, and label of the method or measure
# Kinds that train, and so cost about the same per epoch.
TRAINING = ("train", "unlearn", "trial")


@dataclass(frozen=True)
class Left:
    """Seconds of what is left, one cell after another, and how many cells they leave out: nothing like them was made."""

    seconds: float
    unknown: int


@dataclass
class _Tally:
    """Some cells, with what they declare to cost and what they took."""

    cells: int = 0
    work: float = 0.0
    seconds: float = 0.0

    def add(self, work: float, seconds: float = 0.0, times: int = 1) -> None:
        self.cells += times
        self.work += times * work
        self.seconds += times * seconds


@dataclass(eq=False)
class Remaining:
    """Hears what becomes of each cell; `before` are mean seconds that are known from elsewhere.

    Sums alone are kept, so that hearing costs the same for ten cells and for ten thousand.
    """

    cells: Iterable[Cell]
    before: Mapping[Sort, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left: dict[Sort, _Tally] = {}
        self._made: dict[Sort, _Tally] = {}
        for cell in self.cells:
            self.again(cell)

    def again(self, cell: Cell) -> None:
        """The cell has to be made, for the first time or once more."""
        self._left.setdefault(sort_of(cell), _Tally()).add(_work(cell))

    def done(self, cell: Cell, seconds: float | None = None) -> None:
        """The cell is there, and took so long; without `seconds` it has failed."""
        self._left[sort_of(cell)].add(_work(cell), times=-1)
        if seconds is not None:
            self._made.setdefault(sort_of(cell), _Tally()).add(_work(cell), seconds)

    def left(self) -> Left:
        seconds, unknown = 0.0, 0
        for sort, tally in self._left.items():
            if not tally.cells:
                continue
            known = self._seconds(sort, tally)
            seconds += known or 0.0
            unknown += tally.cells if known is None else 0
        return Left(seconds, unknown)

    def _seconds(self, sort: Sort, left: _Tally) -> float | None:
        """By the rate of its own sort; failing that, by what an epoch took of others."""
        made = self._made.get(sort)
        if made is None and sort in self.before:
            return self.before[sort] * left.cells
        if made is None:
            made = _Tally()
            for (kind, _), other in self._made.items():
                if kind in TRAINING and sort[0] in TRAINING:
                    made.add(other.work, other.seconds)
            return left.work * made.seconds / made.work if made.work > 0 else None
        if made.work > 0:
            return left.work * made.seconds / made.work
        return left.cells * made.seconds / made.cells


def sort_of(cell: Cell) -> Sort:
    worker = getattr(cell, "measure", None) or getattr(cell, "method", None)
    return cell.kind, str(getattr(worker, "label", ""))


def _work(cell: Cell) -> float:
    """What a cell declares to cost, beside others of its kind. A measure declares what its model cost, not itself."""
    if cell.kind == "measure":
        return 1.0
    return max(0.0, cell.cost - FIRST) if cell.kind == "train" else cell.cost
