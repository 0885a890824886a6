"""Calibration of the estimator of mutual information on problems with a known answer, one record each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from residua.errors import InputError
from residua.measure import InformationCurve
from residua.measure.information import calibration
from residua.measure.information.calibration import PROBLEMS, Calibration, Problem
from residua.measure.information.samples import entropy
from residua.measure.measuring import Taken, recorded
from residua.readings import Reading
from residua.record import MethodFacts, Record, Setting
from residua.study.cells import REVISIONS, Cell, Context, Output
from residua.study.executors import How
from residua.study.schedule import computing
from residua.study.store import Result, Store

# Repeats of a cell: a killed run loses no more, and more repeats later find those that are there.
PART = 20


@dataclass(frozen=True, eq=False)
class Calibrating:
    """A cell: one problem, read on `repeats` draws from the seed `first` on."""

    kind: ClassVar[str] = "calibrate"

    problem: Problem
    first: int
    repeats: int
    parents: tuple[Cell, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.problem.name}, {self.first + 1} to {self.first + self.repeats}"

    @property
    def cost(self) -> float:
        return float(self.repeats * self.problem.n * self.problem.dimensions * self.problem.labels)

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        return {
            "revision": [REVISIONS["measure"], InformationCurve.revision],
            "problem": asdict(self.problem),
            "first": self.first,
            "repeats": self.repeats,
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        found = calibration.calibrate(self.problem, self.repeats, self.first)
        return Output({"truth": found.truth}, {"values": found.values, "lows": found.lows, "highs": found.highs})


def calibrate(
    problems: Iterable[Problem] = PROBLEMS, *, out: str | Path, repeats: int = 100, **how: Any
) -> list[Record]:
    """A record of each problem: bias, spread and coverage of the estimator.

    Args:
        problems: Problems with a known mutual information.
        out: Folder of the records and of the store.
        repeats: Draws of each problem.
        how: Fields of `executors.How`: jobs, tell, ...
    """
    out = Path(out)
    parts = {
        problem: [Calibrating(problem, i, min(PART, repeats - i)) for i in range(0, repeats, PART)]
        for problem in problems
    }
    cells = [cell for of_problem in parts.values() for cell in of_problem]
    with computing(out, Context({}), How(**how)) as compute:
        run = compute(cells)
    for cell, why in run.failures.items():
        raise InputError(f"{cell.name}: {why}")
    records = [_record(problem, [run.results[cell] for cell in parts[problem]], run.store) for problem in parts]
    for record in records:
        record.write(out)
    return records


def _label_probabilities(problem: Problem) -> torch.Tensor:
    two = [1 - problem.positive, problem.positive]
    probabilities = two if problem.labels == 2 else [1 / problem.labels] * problem.labels
    return torch.tensor(probabilities, dtype=torch.float64)


def _record(problem: Problem, results: Sequence[Result], store: Store) -> Record:
    """The record of one problem, from all its parts."""
    found = [store.arrays(result) for result in results]
    arrays = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    calibrated = Calibration(problem, problem.truth(), **arrays)
    values = calibrated.readings() | {"ceiling": entropy(_label_probabilities(problem))}
    return recorded(
        problem.name,
        [Taken(_Estimator(), Reading(values), sum(result.seconds for result in results))],
        method=MethodFacts(label=_Estimator.label),
        setting=Setting(problem=asdict(problem)),
        seeds={"first": 0, "last": len(arrays["values"]) - 1},
        arrays=arrays,
        software=results[-1].software,
        command=results[-1].command,
    )


@dataclass(frozen=True)
class _Estimator:
    """The estimator, as a record keeps a measure."""

    label = "information"
