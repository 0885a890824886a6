"""Computing: any cells, by whoever computes them, with their keys and the state of the run beside the store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residua.study import looking
from residua.study.cells import Cell, Context
from residua.study.claims import Claims
from residua.study.engines import Engine, engaged
from residua.study.jobs import Tell, silent
from residua.study.running import Progress, Run, Step
from residua.study.sharing import shared
from residua.study.store import Store
from residua.training.keeping import EVERY

Hear = Callable[[Run, Cell], None]


@dataclass(frozen=True)
class How:
    """How cells are computed; no number depends on it but that of another kind of device.

    In this process, in `jobs` worker processes with one thread each, or as tasks of the Ray cluster at `address`
    (`engine`), of which each needs `memory` bytes. `limit` is the most seconds for one group of cells. A training keeps
    its state every `keep` seconds. `command` is kept with what is made, `tell` hears sentences, and `progress` where
    the run is.
    """

    jobs: int = 1
    device: str = "cpu"
    limit: float | None = None
    keep: float = EVERY
    command: str = ""
    tell: Tell = silent
    progress: Progress = lambda step: None
    engine: Engine = "local"
    address: str | None = None
    memory: int | None = None


class Conductor:
    """Computes what is missing of any cells, as often as it is asked, by the same workers."""

    def __init__(self, start: Callable[[Sequence[Cell]], Run], crew: Any, claims: Claims, out: Path) -> None:
        self._start, self._crew, self._claims, self._out = start, crew, claims, out

    def __call__(self, cells: Sequence[Cell], hear: Hear = lambda run, cell: None) -> Run:
        """`hear` is called with every cell that is there."""
        run = self._start(cells)
        run.finished = lambda cell, result: hear(run, cell)
        run.progress = _Told(self._out, run, run.progress)
        try:
            run.go(self._crew, self._claims)
        finally:
            failures = {cell.name: why for cell, why in run.failures.items()}
            whole = len(run.results) + len(failures) == len(cells)
            looking.write_status(self._out, run.step(), failures, finished=whole)
            looking.write_keys(self._out, {cell.name: run.keys[cell] for cell in cells if cell in run.keys})
        return run


@contextlib.contextmanager
def conductor(out: Path, context: Context, facts: Mapping[str, Any], how: How) -> Iterator[Conductor]:
    """Workers and claims for as many calls as the body makes."""
    out.mkdir(parents=True, exist_ok=True)
    hired = engaged(
        how.engine,
        how.jobs,
        limit=how.limit,
        tell=how.tell,
        address=how.address,
        device=context.device,
        memory=how.memory,
    )
    with shared(context, out) as handle, Claims(out) as claims, hired as crew:

        def start(cells: Sequence[Cell]) -> Run:
            store = Store(out, how.tell)
            return Run(
                cells,
                store,
                handle,
                facts,
                command=how.command,
                keep=how.keep,
                tell=how.tell,
                progress=how.progress,
            )

        yield Conductor(start, crew, claims, out)


def conduct(
    cells: Sequence[Cell],
    out: Path,
    *,
    context: Context,
    facts: Mapping[str, Any],
    how: How,
    hear: Hear = lambda run, cell: None,
) -> Run:
    """Compute what is missing of these cells."""
    with conductor(out, context, facts, how) as compute:
        return compute(cells, hear)


@dataclass(eq=False)
class _Told:
    """Passes on where a run is, and writes it down once a second for `study status`."""

    out: Path
    run: Run
    progress: Progress
    last: float = 0.0

    def __call__(self, step: Step) -> None:
        self.progress(step)
        if time.monotonic() - self.last >= 1.0:
            self.last = time.monotonic()
            failures = {cell.name: why for cell, why in self.run.failures.items()}
            looking.write_status(self.out, step, failures, finished=False)
