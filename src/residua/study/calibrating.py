"""calibrate: the estimator of mutual information on problems whose answer is known, one record each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from residua.errors import InputError
from residua.facts import MethodFacts, Setting
from residua.measure import InformationCurve
from residua.measure.information import calibration
from residua.measure.information.calibration import PROBLEMS, Problem
from residua.measure.information.labels import entropy
from residua.record import Record
from residua.study.cells import REVISIONS, Cell, Context, Output
from residua.study.computing import How, conduct
from residua.study.store import Result, Store


@dataclass(frozen=True, eq=False)
class Calibrating:
    """A cell: one problem, read on `repeats` draws."""

    kind: ClassVar[str] = "calibrate"

    problem: Problem
    repeats: int
    parents: tuple[Cell, ...] = ()

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def group(self) -> object:
        return self

    @property
    def cost(self) -> float:
        return float(self.problem.n * self.problem.dimensions * self.problem.labels)

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        return {
            "revision": [REVISIONS["measure"], InformationCurve.revision],
            "problem": asdict(self.problem),
            "repeats": self.repeats,
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        calibrated = calibration.calibrate(self.problem, self.repeats)
        values = calibrated.readings() | {"ceiling": entropy(_shares(self.problem))}
        return Output(
            values, {"values": calibrated.values, "lows": calibrated.lows, "highs": calibrated.highs}
        )


def calibrate(
    problems: Iterable[Problem] = PROBLEMS, *, out: str | Path, repeats: int = 100, **how: Any
) -> list[Record]:
    """A record of each problem: bias, spread and coverage. `how` are the fields of `computing.How`: jobs, tell, ..."""
    out = Path(out)
    cells = [Calibrating(problem, repeats) for problem in problems]
    store = Store(out)
    run = conduct(cells, out, context=Context({}), facts={}, how=How(**how))
    for cell, why in run.failures.items():
        raise InputError(f"{cell.name}: {why}")
    records = [_record(cell, run.results[cell], store) for cell in cells]
    for record in records:
        record.write(out)
    return records


def _shares(problem: Problem) -> torch.Tensor:
    """How likely each label is."""
    two = [1 - problem.positive, problem.positive]
    shares = two if problem.labels == 2 else [1 / problem.labels] * problem.labels
    return torch.tensor(shares, dtype=torch.float64)


def _record(cell: Calibrating, result: Result, store: Store) -> Record:
    return Record(
        name=cell.name,
        setting=Setting(problem=asdict(cell.problem)),
        method=MethodFacts(label="information"),
        seeds={"first": 0, "last": cell.repeats - 1},
        readings={"information": result.values},
        seconds={"information": result.seconds},
        arrays=store.arrays(result),
        software=result.software,
        command=result.command,
    )
