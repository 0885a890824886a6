"""Running: cells in the order in which they become possible, each computed once, whoever computes it."""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from residua.errors import InputError
from residua.study.cells import Cell, Context
from residua.study.claims import Claims
from residua.study.jobs import Crew, Job, Outcome, Tell, silent
from residua.study.remaining import Remaining
from residua.study.sharing import Shared
from residua.study.store import LostModel, Result, Store, StoreFault, key_of
from residua.training.keeping import EVERY, kept_at

# How often a lost model is made again for one cell before the store counts as unusable.
TRIES = 3
# Seconds between two looks at cells that another process has claimed.
LOOK = 1.0


@dataclass(frozen=True)
class Step:
    """Where a run is, after something has changed.

    `left` is about how many seconds it has yet to go, by what was made so far, and leaves `unknown` cells out.
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


Progress = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class Task:
    """A cell with its key, ready to be computed anywhere."""

    cell: Cell
    key: str
    inputs: dict[str, Any]
    parents: tuple[Result, ...]


def compute(
    context: Shared[Context], folder: str, tasks: Sequence[Task], command: str, keep: float = EVERY
) -> list[Result | Exception]:
    """Compute the cells of one group in a row and keep each as soon as it is there; runs in a worker."""
    store = Store(folder)
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


@dataclass(eq=False)
class Run:
    """One run over many cells. `results` and `failures` say what became of each."""

    cells: Sequence[Cell]
    store: Store
    context: Shared[Context]
    facts: Mapping[str, Any]
    command: str = ""
    keep: float = EVERY
    tell: Tell = silent
    progress: Progress = lambda step: None
    finished: Callable[[Cell, Result], None] = lambda cell, result: None
    results: dict[Cell, Result] = field(default_factory=dict)
    failures: dict[Cell, str] = field(default_factory=dict)
    keys: dict[Cell, str] = field(default_factory=dict)
    computed: int = 0

    def __post_init__(self) -> None:
        self._children: dict[Cell, list[Cell]] = {cell: [] for cell in self.cells}
        for cell in self.cells:
            for parent in cell.parents:
                self._children[parent].append(cell)
        self._ready: dict[object, list[Task]] = {}  # by group
        self._order = itertools.count()
        self._queue: list[tuple[float, int, object]] = []  # groups, what takes longest first
        self._pending: set[Cell] = set()  # ready, running or elsewhere
        self._running: dict[str, list[Task]] = {}  # by key; equal cells wait for the first
        self._known: dict[str, Result] = {}  # computed in this run, by key
        self._elsewhere: list[Task] = []
        self._lost: dict[Cell, int] = {}
        self._remaining = Remaining(self.cells)
        self._at_once = 1

    def look(self) -> None:
        """Find what is in the store already; what remains ready is to be computed."""
        for cell in self.cells:
            if not cell.parents:
                self._consider(cell)

    def go(self, crew: Crew, claims: Claims) -> None:
        """Compute everything that is missing."""
        self._at_once = crew.at_once
        self.look()
        self._report("")
        looked = time.monotonic()
        while self._ready or self._running or self._elsewhere:
            self._give(crew, claims)
            if self._running:
                outcomes = crew.wait()
                for outcome in outcomes:
                    self._take(outcome, claims)
                if not outcomes:  # a second has passed: whoever looks sees what is being made
                    self._report("")
            elif self._elsewhere:
                time.sleep(LOOK)
            if self._elsewhere and time.monotonic() - looked >= LOOK:
                looked = time.monotonic()
                waiting, self._elsewhere = self._elsewhere, []
                for task in waiting:
                    self._consider(task.cell)  # it is there by now, or its claim may have expired

    def _consider(self, cell: Cell) -> None:
        """All parents of this cell are known: it is in the store, or ready to be computed, or cannot be."""
        failed = [parent for parent in cell.parents if parent in self.failures]
        if failed:
            self._fail(cell, f"it needs {failed[0].name}, which failed")
            return
        self._pending.add(cell)
        parents = tuple(self.results[parent] for parent in cell.parents)
        inputs = json.loads(
            json.dumps(cell.inputs(self.facts, self.context.get().device, parents), default=str)
        )
        key = key_of(cell.kind, inputs)
        self.keys[cell] = key
        task = Task(cell, key, inputs, parents)
        result = self.store.get(key)
        if result is not None:
            self._done(cell, result)
        elif key in self._running:
            self._running[key].append(task)
        else:
            if cell.group not in self._ready:
                heapq.heappush(self._queue, (-cell.cost, next(self._order), cell.group))
            self._ready.setdefault(cell.group, []).append(task)

    def _give(self, crew: Crew, claims: Claims) -> None:
        """Hand out ready cells, what takes longest first, those of one group together."""
        while crew.free and self._queue:
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
                elif (there := self.store.get(task.key)) is not None:  # by whoever had the claim before us
                    claims.release(task.key)
                    self._done(task.cell, there)
                else:
                    self._running[task.key] = [task]
                    unique.append(task)
            if unique:
                name = ", ".join(task.cell.name for task in unique)
                arguments = (self.context, str(self.store.folder), unique, self.command, self.keep)
                crew.give(Job(name, compute, arguments, about=unique))
                self._report("")

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
        maker = next(
            (p for p, r in zip(cell.parents, task.parents, strict=True) if r.model == error.weights), None
        )
        if maker in self._pending:  # somebody else has asked for it
            self._pending.discard(cell)
            return
        if maker is None or self._lost[cell] > TRIES:
            self._fail(cell, str(error))
            return
        self.tell(f"{maker.name} is made again, because its model is missing or damaged")
        self.store.forget(self.results[maker].key)
        self._known.pop(self.results[maker].key, None)
        for stale in self._descendants(maker):
            if self.results.pop(stale, None) is not None:
                self._remaining.again(stale)
        self._pending.discard(cell)
        self._consider(maker)

    def _descendants(self, cell: Cell) -> Iterator[Cell]:
        yield cell
        for child in self._children[cell]:
            yield from self._descendants(child)

    def _done(self, cell: Cell, result: Result) -> None:
        self._pending.discard(cell)
        self.results[cell] = result
        self._remaining.done(cell, result.seconds)
        self.finished(cell, result)
        self._report(cell.name, result.seconds)
        self._next(cell)

    def _fail(self, cell: Cell, why: str) -> None:
        self._pending.discard(cell)
        self.failures[cell] = why
        self._remaining.done(cell)
        self.tell(f"{cell.name} failed: {why}")
        self._report(cell.name)
        self._next(cell)

    def _next(self, cell: Cell) -> None:
        for child in self._children[cell]:
            known = all(parent in self.results or parent in self.failures for parent in child.parents)
            settled = child in self.results or child in self.failures or child in self._pending
            if known and not settled:
                self._consider(child)

    def step(self, last: str = "", seconds: float = 0.0) -> Step:
        """Where the run is now."""
        done = len(self.results)
        running = tuple(tasks[0].cell.name for tasks in self._running.values())
        reused = max(0, done - self.computed)
        left = self._remaining.left()
        return Step(
            done,
            len(self.cells),
            reused,
            len(self.failures),
            running,
            last,
            seconds,
            left=left.seconds / self._at_once,
            unknown=left.unknown,
        )

    def _report(self, last: str, seconds: float = 0.0) -> None:
        self.progress(self.step(last, seconds))


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"[:300]
