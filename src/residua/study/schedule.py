"""The schedule: cells in the order in which they become possible, each computed once, and a study's records from them."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from residua.compare import guards
from residua.errors import InputError
from residua.files import check_place, temporary_folder
from residua.record import Record
from residua.study import folder
from residua.study.cells import FIRST, Cell, Context, Measurement
from residua.study.definition import PlannedRow, Study
from residua.study.executors import Executor, How, Job, Outcome, Shared, Tell
from residua.study.executors import executor as executor_of
from residua.study.folder import compact
from residua.study.store import (
    DAMAGED,
    PARTS,
    RECORDS,
    Claims,
    LostModel,
    Result,
    Store,
    StoreFault,
    key_of,
    own_folder,
)  # fmt: skip
from residua.training.keeping import kept_at
from residua.training.settings import directions
from residua.unlearn import traits

# Kinds that train, and so cost about the same per epoch.
TRAINING = ("train", "unlearn", "trial")
# Times that a lost model is made again for one cell before the store counts as unusable.
TRIES = 3
# Seconds between two looks at cells that another process has claimed.
LOOK = 1.0

Sort = tuple[str, str]  # kind, and label of the method or measure


class Left(NamedTuple):
    """Time left, one cell after another, without the `unknown` cells: nothing like them was made."""

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


class Remaining:
    """An estimate of the time left: cells cost what others of their kind and label have cost so far.

    Only sums are kept, so that an update costs the same for ten cells and for ten thousand.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._left: dict[Sort, _Tally] = {}
        self._made: dict[Sort, _Tally] = {}
        for cell in cells:
            self.again(cell)

    def again(self, cell: Cell) -> None:
        """The cell has to be made, for the first time or once more."""
        self._left.setdefault(sort_of(cell), _Tally()).add(_work(cell))

    def done(self, cell: Cell, seconds: float | None = None) -> None:
        """The cell is there, and took so long; without `seconds` it has failed."""
        self._left[sort_of(cell)].add(_work(cell), times=-1)
        if seconds is not None:
            self._made.setdefault(sort_of(cell), _Tally()).add(_work(cell), seconds)

    def left(self, before: Mapping[Sort, float] | None = None) -> Left:
        """`before` are mean seconds of one cell that are known from elsewhere; they stand in where none was made."""
        some = {sort: tally for sort, tally in self._left.items() if tally.cells}
        left = [(tally, self._seconds(sort, tally, before or {})) for sort, tally in some.items()]
        unknown = sum(tally.cells for tally, seconds in left if seconds is None)
        return Left(sum(seconds or 0.0 for _, seconds in left), unknown)

    def _seconds(self, sort: Sort, left: _Tally, before: Mapping[Sort, float]) -> float | None:
        """By the rate of its own sort; failing that, by the time that an epoch of other methods took."""
        made = self._made.get(sort)
        if made is None and sort in before:
            return before[sort] * left.cells
        if made is None:
            others = [t for (kind, _), t in self._made.items() if kind in TRAINING and sort[0] in TRAINING]
            made = _Tally(work=sum(t.work for t in others), seconds=sum(t.seconds for t in others))
        if made.work > 0:
            return left.work * made.seconds / made.work
        return left.cells * made.seconds / made.cells if made.cells else None


def sort_of(cell: Cell) -> Sort:
    """Kind of a cell, and label of its method or measure: cells of one sort cost about the same."""
    worker = getattr(cell, "measure", None) or getattr(cell, "method", None)
    return cell.kind, str(getattr(worker, "label", ""))


def _work(cell: Cell) -> float:
    """The declared cost of a cell among its kind. A measure declares the cost of its model, not its own."""
    if cell.kind == "measure":
        return 1.0
    return max(0.0, cell.cost - FIRST) if cell.kind == "train" else cell.cost


@dataclass(frozen=True)
class Step:
    """The state of a run after a change.

    `left` estimates the seconds to go from what was made so far, and leaves `unknown` cells out.
    """

    done: int
    total: int
    reused: int
    failed: int
    running: tuple[str, ...]
    last: str = ""
    seconds: float = 0.0
    left: float = 0.0
    unknown: int = 0


@dataclass(frozen=True, eq=False)
class Task:
    """A cell with its key, ready to be computed anywhere."""

    cell: Cell
    key: str
    inputs: dict[str, Any]
    parents: tuple[Result, ...]


def compute_group(
    context: Shared, place: str, tasks: Sequence[Task], command: str, keep: float
) -> list[Result | Exception]:
    """Compute the cells of one group in a row and store each when it is finished; runs in a worker."""
    store = Store(place, repairs=True)
    answers: list[Result | Exception] = []
    for task in tasks:
        try:
            answers.append(store.get(task.key) or _computed(context.get(), store, task, command, keep))
        except StoreFault:
            raise
        except InputError as error:
            answers.append(error)
    return answers


def _computed(context: Context, store: Store, task: Task, command: str, keep: float) -> Result:
    start = time.perf_counter()
    with kept_at(store.partial(task.key), keep):
        output = task.cell.run(context, store, task.parents)
    result = Result(
        key=task.key,
        kind=task.cell.kind,
        name=task.cell.name,
        inputs=task.inputs,
        values=dict(output.values),
        seconds=time.perf_counter() - start,
        command=command,
    )
    return store.put(result, output.arrays)


OnResult = Callable[["Run", Cell], None]


@dataclass(eq=False)
class Run:
    """One run over many cells: `results` and `failures` hold the outcome of each.

    `on_result` is called with every cell that is there, computed or found in the store.
    """

    cells: Sequence[Cell]
    store: Store
    context: Context
    how: How = field(default_factory=How)
    on_result: OnResult = lambda run, cell: None
    results: dict[Cell, Result] = field(default_factory=dict)
    failures: dict[Cell, str] = field(default_factory=dict)
    keys: dict[Cell, str] = field(default_factory=dict)
    computed: int = 0

    def __post_init__(self) -> None:
        self.remaining = Remaining(self.cells)
        self._waited_for: set[str] = set()
        self._children: dict[Cell, list[Cell]] = {cell: [] for cell in self.cells}
        for cell in self.cells:
            for parent in cell.parents:
                self._children[parent].append(cell)
        self._ready: dict[Cell, list[Task]] = {}  # by group
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Cell]] = []  # groups, what takes longest first
        self._pending: set[Cell] = set()  # ready, running or elsewhere
        self._running: dict[str, list[Task]] = {}  # by key; equal cells wait for the first
        self._known: dict[str, Result] = {}  # computed in this run, by key
        self._elsewhere: list[Task] = []
        self._lost: dict[Cell, int] = {}
        self._at_once = 1
        self._status_written: float | None = None  # None as long as nothing is computed

    def look(self) -> None:
        """Find what is in the store already; what remains ready is to be computed."""
        for cell in self.cells:
            if not cell.parents:
                self._consider(cell)

    def go(self, executor: Executor, claims: Claims, shared_context: Shared) -> None:
        """Compute everything that is missing, and keep the state of the run and the keys of its cells on disk."""
        self._at_once, self._status_written = executor.at_once, 0.0
        try:
            self.look()
            self._report()
            looked = time.monotonic()
            while self._ready or self._running or self._elsewhere:
                self._give(executor, claims, shared_context)
                if self._running:
                    outcomes = executor.wait()
                    for outcome in outcomes:
                        self._take(outcome, claims)
                    if not outcomes:  # a second has passed: whoever looks sees what is being made
                        self._report()
                elif self._elsewhere:
                    time.sleep(LOOK)
                if self._elsewhere and time.monotonic() - looked >= LOOK:
                    looked = time.monotonic()
                    waiting, self._elsewhere = self._elsewhere, []
                    for task in waiting:
                        self._consider(task.cell)  # it is there by now, or its claim may have expired
        finally:
            self._write_status(self._step(), len(self.results) + len(self.failures) == len(self.cells))
            keys = {cell.name: self.keys[cell] for cell in self.cells if cell in self.keys}
            folder.replace(self.store.folder / folder.KEYS, keys)

    def _consider(self, cell: Cell) -> None:
        """All parents of this cell are known: it is in the store, or ready to be computed, or cannot be."""
        failed = [parent for parent in cell.parents if parent in self.failures]
        if failed:
            self._fail(cell, f"it needs {failed[0].name}, which failed")
            return
        self._pending.add(cell)
        parents = tuple(self.results[parent] for parent in cell.parents)
        inputs = json.loads(json.dumps(cell.inputs(self.context, parents), default=str))
        key = key_of(cell.kind, inputs)
        self.keys[cell] = key
        task = Task(cell, key, inputs, parents)
        result = self.store.get(key)
        if result is not None:
            self._done(cell, result)
        elif key in self._running:
            self._running[key].append(task)
        else:
            # Measures of one model run in a row in one process, because they share forward passes.
            group = cell.made if isinstance(cell, Measurement) else cell
            if group not in self._ready:
                heapq.heappush(self._queue, (-cell.cost, next(self._order), group))
            self._ready.setdefault(group, []).append(task)

    def _give(self, executor: Executor, claims: Claims, shared_context: Shared) -> None:
        """Hand out ready cells, what takes longest first, those of one group together."""
        while executor.free and self._queue:
            _, _, group = heapq.heappop(self._queue)
            mine = self._ready.pop(group)
            unique: list[Task] = []
            for task in mine:
                if task.key in self._known:
                    self._done(task.cell, self._known[task.key])
                elif task.key in self._running:
                    self._running[task.key].append(task)
                elif not claims.take(task.key):
                    self._elsewhere.append(task)
                    self._say_whose(task, claims)
                elif (there := self.store.get(task.key)) is not None:  # by whoever had the claim before us
                    claims.release(task.key)
                    self._done(task.cell, there)
                else:
                    self._running[task.key] = [task]
                    unique.append(task)
            if unique:
                name = ", ".join(task.cell.name for task in unique)
                place = str(self.store.folder)
                arguments = (shared_context, place, unique, self.how.command, self.how.keep)
                executor.give(Job(name, compute_group, arguments, about=unique))
                self._report()

    def _say_whose(self, task: Task, claims: Claims) -> None:
        """Report once for each process that cells are waited for."""
        owner = claims.owner(task.key)
        if owner and owner not in self._waited_for:
            self._waited_for.add(owner)
            self.how.tell(
                f"{task.cell.name} is being made by the process {owner}; it is waited for, and made here "
                f"once that has shown no sign of life for {claims.expired:.0f} s"
            )

    def _take(self, outcome: Outcome, claims: Claims) -> None:
        tasks: list[Task] = outcome.job.about
        answers = outcome.value if outcome.error is None else [outcome.error] * len(tasks)
        if isinstance(outcome.error, StoreFault):
            raise outcome.error
        for task, answer in zip(tasks, answers, strict=True):
            claims.release(task.key)
            waiting = self._running.pop(task.key)
            if isinstance(answer, Result):
                self.computed += 1
                self._known[task.key] = answer
                for each in waiting:
                    self._done(each.cell, answer)
            elif isinstance(answer, LostModel):
                for each in waiting:
                    self._make_again(each, answer)
            else:
                for each in waiting:
                    self._fail(each.cell, _sentence(answer))

    def _make_again(self, task: Task, error: LostModel) -> None:
        """A parent's model is gone from the store: that parent runs again, then this cell."""
        cell = task.cell
        self._lost[cell] = self._lost.get(cell, 0) + 1
        maker = next((p for p, r in zip(cell.parents, task.parents, strict=True) if r.model == error.weights), None)
        if maker in self._pending:  # somebody else has asked for it
            self._pending.discard(cell)
            return
        if maker is None or self._lost[cell] > TRIES:
            self._fail(cell, str(error))
            return
        self.how.tell(f"{maker.name} is made again, because its model is missing or damaged")
        self.store.forget(self.results[maker].key)
        self._known.pop(self.results[maker].key, None)
        for stale in self._descendants(maker):
            if self.results.pop(stale, None) is not None:
                self.remaining.again(stale)
        self._pending.discard(cell)
        self._consider(maker)

    def _descendants(self, cell: Cell) -> Iterator[Cell]:
        yield cell
        for child in self._children[cell]:
            yield from self._descendants(child)

    def _done(self, cell: Cell, result: Result) -> None:
        self.results[cell] = result
        self.remaining.done(cell, result.seconds)
        self.on_result(self, cell)
        self._settled(cell, result.seconds)

    def _fail(self, cell: Cell, why: str) -> None:
        self.failures[cell] = why
        self.remaining.done(cell)
        self.how.tell(f"{cell.name} failed: {why}")
        self._settled(cell)

    def _settled(self, cell: Cell, seconds: float = 0.0) -> None:
        """The outcome of a cell is known: consider the cells that waited for it."""
        self._pending.discard(cell)
        self._report(cell.name, seconds)
        for child in self._children[cell]:
            known = all(parent in self.results or parent in self.failures for parent in child.parents)
            settled = child in self.results or child in self.failures or child in self._pending
            if known and not settled:
                self._consider(child)

    def _step(self, last: str = "", seconds: float = 0.0) -> Step:
        left = self.remaining.left()
        return Step(
            done=len(self.results),
            total=len(self.cells),
            reused=max(0, len(self.results) - self.computed),
            failed=len(self.failures),
            running=tuple(tasks[0].cell.name for tasks in self._running.values()),
            last=last,
            seconds=seconds,
            left=left.seconds / self._at_once,
            unknown=left.unknown,
        )

    def _report(self, last: str = "", seconds: float = 0.0) -> None:
        """Pass on the state of the run, and write it down once a second for `study status`."""
        step = self._step(last, seconds)
        self.how.progress(step)
        if self._status_written is not None and time.monotonic() - self._status_written >= 1.0:
            self._status_written = time.monotonic()
            self._write_status(step, finished=False)

    def _write_status(self, step: Step, finished: bool) -> None:
        failures = {cell.name: why for cell, why in self.failures.items()}
        state = asdict(step) | {"failures": failures, "finished": finished}
        folder.replace(self.store.folder / folder.STATUS, state)


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"[:300]


Compute = Callable[..., Run]


@contextlib.contextmanager
def computing(out: Path, context: Context, how: How) -> Iterator[Compute]:
    """A function `compute(cells, on_result)` that computes what is missing of any cells, by the same workers each time."""
    out.mkdir(parents=True, exist_ok=True)
    for part in (*PARTS, DAMAGED, RECORDS):
        own_folder(out, part)  # a store of somebody else's must not lead elsewhere
    # The context goes to workers as a file beside the store, which workers on other machines see, too.
    with temporary_folder(out) as place, Claims(out) as claims, executor_of(how) as executor:
        shared = Shared(context, place)

        def compute(cells: Sequence[Cell], on_result: OnResult = lambda run, cell: None) -> Run:
            run = Run(cells, Store(out, how.tell, repairs=True), context, how, on_result)
            run.go(executor, claims, shared)
            return run

        yield compute


@dataclass(frozen=True)
class Finished:
    """A study after its run: the records that are complete, and the reasons why other cells failed."""

    records: list[Record]
    failures: dict[str, str]
    computed: int
    reused: int


def run(study: Study, out: str | Path, **how: Any) -> Finished:
    """Make what is missing of the study and write its records to `out/records`; finished cells are not made again.

    Args:
        study: The study.
        out: Folder of the study: its store, its state and its records.
        how: Fields of `How`: jobs, device, engine, progress, ...
    """
    out, options = Path(out), How(**how)
    check_place(out / folder.DEFINITION)
    context = Context(study.tasks, options.device)
    _ = context.facts  # an image that cannot be hashed is found before anything is written
    for sentence in folder.keep_definition(out, study.definition()):
        options.tell(sentence)
    written: dict[str, Record] = {}
    rows: dict[Cell, list[PlannedRow]] = {}
    for row in study.rows:
        for cell in row.cells:
            rows.setdefault(cell, []).append(row)

    def write(row: PlannedRow, run: Run) -> None:
        record = row.record(run, study.scale)
        record = compact(record) if study.compact else record
        if folder.hash_in(out / "records" / f"{record.name}.json") != record.sha256:
            record.write(out / "records")
        written[row.name] = record

    def on_result(run: Run, cell: Cell) -> None:
        """Write the record of each row as soon as its last cell is there."""
        for row in rows.get(cell, ()):
            if row.name not in written and all(each in run.results for each in row.cells):
                write(row, run)

    with computing(out, context, options) as compute:
        done = compute(study.cells, on_result)
    for row in study.rows:  # of those of which some measure failed, what is there
        some = row.made in done.results and any(each in done.results for each in row.measurements)
        if row.name not in written and some:
            write(row, done)
    _warn(study, written, options.tell)
    return Finished(
        [written[row.name] for row in study.rows if row.name in written],
        {cell.name: why for cell, why in done.failures.items()},
        done.computed,
        len(done.results) - done.computed,
    )


def _warn(study: Study, written: Mapping[str, Record], tell: Tell) -> None:
    """One sentence about each run that did nothing or ruined the model."""

    def start(row: PlannedRow) -> object:
        return row.made.task, tuple(row.made.network.items()), row.seed

    accuracies = {
        name: record.readings["accuracy"] for name, record in written.items() if "accuracy" in record.readings
    }
    originals = {
        start(row): accuracies[row.name] for row in study.rows if row.role == "original" and row.name in accuracies
    }
    for row in study.rows:
        if start(row) in originals and row.name in accuracies and traits(row.made.method).guarded:
            task = study.tasks[row.made.task]
            for sentence in guards(
                accuracies[row.name],
                originals[start(row)],
                scenario=task.scenario,
                samples=len(task.forget),
                settings=directions(row.made.method),
            ):
                tell(f"{row.name}: {sentence}")


def found(study: Study, out: str | Path, device: str = "cpu") -> Run:
    """The run of a study that computes nothing: its results are the cells that the store has."""
    run = Run(study.cells, Store(out), Context(study.tasks, device))
    run.look()
    return run


def whole_records(study: Study, out: str | Path, device: str = "cpu") -> list[Record]:
    """The records of finished rows, with everything that the store has, also where the study keeps less."""
    run = found(study, out, device)
    less = [result.name for result in run.results.values() if result.values.get("compact")]
    if less:
        raise InputError(
            f"{out} has only compact readings of {less[0]} and {len(less) - 1} others, which verdicts cannot rest on; "
            "run the study into an empty folder by `residua study run`, which measures them"
        )
    finished = [row for row in study.rows if all(cell in run.results for cell in row.cells)]
    return [row.record(run, study.scale) for row in finished]


@dataclass(frozen=True)
class Plan:
    """`there` cells are finished and `missing` are to be made, by kind.

    `seconds` estimates the time that they take one after another from cells like them; it leaves out `unknown` cells,
    because nothing like them was ever made here.
    """

    there: dict[str, int]
    missing: dict[str, int]
    seconds: float
    unknown: int
    names: tuple[str, ...]


def plan(study: Study, out: str | Path, device: str = "cpu") -> Plan:
    """The cells that `study.run(out)` would make, and their cost."""
    run = found(study, out, device)
    missing = [cell for cell in study.cells if cell not in run.results]
    left = run.remaining.left(_mean_seconds(run.store.results()))
    return Plan(
        there=dict(Counter(cell.kind for cell in run.results)),
        missing=dict(Counter(cell.kind for cell in missing)),
        seconds=left.seconds,
        unknown=left.unknown,
        names=tuple(cell.name for cell in missing),
    )


def _mean_seconds(results: Iterable[Result]) -> dict[Sort, float]:
    """Mean seconds of all cells of a store, by kind and by method or measure."""
    seconds: dict[Sort, list[float]] = {}
    for result in results:
        worker = result.inputs.get("measure" if result.kind == "measure" else "method", {})
        seconds.setdefault((result.kind, str(worker.get("label", ""))), []).append(result.seconds)
    return {sort: mean(each) for sort, each in seconds.items()}
