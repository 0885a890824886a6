"""run: a study from its definition to its records, on this machine or on others, as often as it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from residua.compare import guards
from residua.errors import InputError
from residua.files import check_place, read_text, write_atomically
from residua.nested import differences
from residua.record import Record
from residua.study import looking
from residua.study.cells import Cell, Context
from residua.study.compacting import compact
from residua.study.computing import How, conduct
from residua.study.definition import PlannedRow, Study
from residua.study.jobs import Tell
from residua.study.running import Run
from residua.study.sharing import Shared
from residua.study.store import Result, Store
from residua.training.settings import directions
from residua.unlearn import Original, traits


@dataclass(frozen=True)
class Finished:
    """What became of a study: the records that are complete, and why the other cells failed."""

    records: list[Record]
    failures: dict[str, str]
    computed: int
    reused: int


@dataclass(eq=False)
class _Records:
    """Writes the record of each row as soon as its last cell is there."""

    study: Study
    store: Store
    facts: Mapping[str, Any]
    place: Path
    written: dict[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows: dict[Cell, list[PlannedRow]] = {}
        for row in self.study.rows:
            for cell in _needed(row):
                self._rows.setdefault(cell, []).append(row)

    def hear(self, run: Run, cell: Cell) -> None:
        for row in self._rows.get(cell, ()):
            if row.name not in self.written and all(each in run.results for each in _needed(row)):
                self._write(row, run.results)

    def rest(self, run: Run) -> None:
        """Rows of which some measure failed: what is there of them."""
        for row in self.study.rows:
            some = row.made in run.results and any(each in run.results for each in row.measurements)
            if row.name not in self.written and some:
                self._write(row, run.results)

    def _write(self, row: PlannedRow, results: Mapping[Cell, Result]) -> None:
        manifest = self.facts[row.made.task]["manifest"]
        record = row.record(results, self.store, self.study.scale, manifest)
        record = compact(record) if self.study.compact else record
        path = self.place / f"{record.name}.json"
        if _hash_in(path) != record.sha256:
            record.write(self.place)
        self.written[row.name] = record


def run(study: Study, out: str | Path, **how: Any) -> Finished:
    """Make what is missing of the study and write its records to `out/records`; finished cells are not made again.

    `how` are the fields of `computing.How`: jobs, device, engine, progress, ...
    """
    out, options = Path(out), How(**how)
    check_place(out / looking.DEFINITION)
    context = Context(study.tasks, options.device)
    facts = context.task_facts()
    _compare(study, out, options.tell)
    records = _Records(study, Store(out, options.tell), facts, out / "records")
    running = conduct(study.cells, out, context=context, facts=facts, how=options, hear=records.hear)
    records.rest(running)
    _warn(study, records.written, options.tell)
    return Finished(
        [records.written[row.name] for row in study.rows if row.name in records.written],
        {cell.name: why for cell, why in running.failures.items()},
        running.computed,
        len(running.results) - running.computed,
    )


def whole_records(study: Study, out: str | Path, device: str = "cpu") -> list[Record]:
    """The records of rows that are finished, with everything that the store has, also where the study keeps less."""
    store, context = Store(out), Context(study.tasks, device)
    facts = context.task_facts()
    found = Run(study.cells, store, Shared(context, store.folder), facts)
    found.look()
    return [
        row.record(found.results, store, study.scale, facts[row.made.task]["manifest"])
        for row in study.rows
        if all(cell in found.results for cell in _needed(row))
    ]


def _compare(study: Study, out: Path, tell: Tell) -> None:
    """Say what differs from the study that ran here before, and keep the new definition."""
    path = out / looking.DEFINITION
    now = json.loads(json.dumps(study.definition(), default=str))
    try:
        before = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError):
        before = None
    if before is not None and before != now:
        for difference in differences(before, now)[:10]:
            was, is_now = difference.short()
            tell(f"note: {difference.place} was {was} in the last run and is {is_now} now")
    if before != now:
        text = json.dumps(now, indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _warn(study: Study, written: Mapping[str, Record], tell: Tell) -> None:
    """Of each run that did nothing or ruined the model, one sentence."""
    originals = {
        (row.made.task, tuple(row.made.network.items()), row.seed): written[row.name]
        for row in study.rows
        if isinstance(row.made.method, Original) and row.name in written
    }
    for row in study.rows:
        before = originals.get((row.made.task, tuple(row.made.network.items()), row.seed))
        after = written.get(row.name)
        if before is None or after is None or not traits(row.made.method).guarded:
            continue
        if "accuracy" in before.readings and "accuracy" in after.readings:
            task = study.tasks[row.made.task]
            for sentence in guards(
                after.readings["accuracy"],
                before.readings["accuracy"],
                scenario=task.scenario,
                samples=len(task.forget),
                settings=directions(row.made.method),
            ):
                tell(f"{row.name}: {sentence}")


def _needed(row: PlannedRow) -> tuple[Cell, ...]:
    return (*row.made.parents, row.made, *row.measurements)


def _hash_in(path: Path) -> str | None:
    try:
        return str(json.loads(read_text(path))["sha256"])
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return None
