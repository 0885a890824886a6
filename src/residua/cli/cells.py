"""Many models of one task, made and measured side by side: one process a core, one thread each.

With one thread each, the numbers do not depend on how many cores there are.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from residua.cheats import CHEATS
from residua.checkpoint import load, save
from residua.classifier import Classifier
from residua.cli.console import err, say
from residua.cli.options import parse_forget
from residua.compare import guards, reading_fields
from residua.datasets import open_dataset
from residua.errors import InputError
from residua.measure import Accuracy, ForgetOutputs, Measure, Membership, Recovery
from residua.networks import build
from residua.recipes import WIDTH, Scale, pretraining, unlearning
from residua.record import Record, describe
from residua.task import ForgetTask
from residua.training import seeded
from residua.unlearn import find

NETWORK = "resnet18"
# Nothing of Original's weights goes into these, so they need not wait for it.
ANEW = ("Retrain", "Random")
# The columns of the paper's tables and recovery; IDI needs the information curve besides.
FULL_STACK: tuple[Measure, ...] = (Accuracy(), Membership(), ForgetOutputs(), Recovery())


@dataclass(frozen=True)
class Setting:
    """What all cells share."""

    data: str
    forget: str
    scale: Scale
    weights: Path
    measures: tuple[Measure, ...]
    command: str

    def original(self, seed: int) -> Path:
        return self.weights / f"seed{seed}-original.safetensors"


@dataclass(frozen=True)
class Cell:
    """One row: a method (by the paper's label) or a cheat on Original number `seed`, drawn from `drawn`."""

    name: str
    label: str
    row: str
    seed: int
    drawn: int


def run_cells(setting: Setting, cells: Iterable[Cell], jobs: int) -> Iterator[Record]:
    """Records in the order in which they are finished. A method that cannot do the task is said, and left out.

    An Original that is not among the setting's weights is trained first. One job runs in this process.
    """
    waiting = list(cells)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        side_by_side(jobs) as pool,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress,
    ):
        bar = progress.add_task("models", total=len(waiting))
        running: dict[Future, Cell | int] = {}
        # Originals first: all but what is drawn anew wait for their own.
        missing = {cell.seed for cell in waiting if not setting.original(cell.seed).exists()}
        next_up: deque[Cell | int] = deque(sorted(missing))
        next_up.extend(cell for cell in waiting if cell.seed not in missing or cell.label in ANEW)
        try:
            while running or next_up:
                while next_up and len(running) < jobs:
                    what = next_up.popleft()
                    work: Callable[..., Any] = _train_original if isinstance(what, int) else _run
                    running[pool.submit(work, setting, what)] = what
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    what = running.pop(future)
                    if isinstance(what, int):
                        say(f"seed {what}: Original trained in {future.result():.1f} s")
                        mine = (cell for cell in waiting if cell.seed == what and cell.label not in ANEW)
                        next_up.extendleft(reversed(list(mine)))
                        continue
                    progress.update(bar, advance=1, description=f"seed {what.seed}: {what.row} done")
                    yield from _finished(future, what)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Here(Executor):
    """Runs what is submitted at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def side_by_side(jobs: int) -> Executor:
    """So many processes of one thread each; one job runs in this process, with all of its threads."""
    if jobs == 1:
        return _Here()
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread)


def _finished(future: Future, cell: Cell) -> Iterator[Record]:
    try:
        record, warnings = future.result()
    except InputError as error:
        say(f"seed {cell.seed}: {error}")
        return
    said = "; ".join(warnings)
    say(f"seed {cell.seed}: {cell.row} took {record.seconds['RTE']:.1f} s{': ' + said if said else ''}")
    yield record


def _one_thread() -> None:
    torch.set_num_threads(1)


@functools.lru_cache(maxsize=1)
def _task(data: str, forget: str) -> ForgetTask:
    return parse_forget(open_dataset(data), forget)


def _network(task: ForgetTask, scale: Scale) -> Classifier:
    channels, size, _ = task.retain.shape
    stem = "imagenet" if size > 64 else "cifar"
    return build(NETWORK, classes=task.classes, channels=channels, width=WIDTH[scale], stem=stem)


def _train_original(setting: Setting, seed: int) -> float:
    """Trains and saves it; returns the seconds that it took."""
    task = _task(setting.data, setting.forget)
    with seeded(seed):
        network = _network(task, setting.scale)
        start = time.perf_counter()
        model = pretraining(setting.scale, task.dataset, NETWORK)(network, task.train)
        seconds = time.perf_counter() - start
    save(model, setting.original(seed))
    return seconds


def _run(setting: Setting, cell: Cell) -> tuple[Record, list[str]]:
    task = _task(setting.data, setting.forget)
    if cell.label in ANEW:
        original = _network(task, setting.scale)
    else:
        original = load(setting.original(cell.seed), expect={"classes": task.classes})
    recipe = unlearning(setting.scale, task.scenario, task.dataset, NETWORK).get(cell.label, {})
    method = CHEATS.get(cell.label) or find(cell.label, **recipe)
    with seeded(cell.drawn):
        start = time.perf_counter()
        found = method(original, task)
        seconds = {"RTE": time.perf_counter() - start}
    if cell.label != "Original" and cell.label not in CHEATS:  # no checkpoint can rebuild a cheat's head
        save(found, setting.weights / f"{cell.name}.safetensors")
    readings = {}
    for measure in setting.measures:
        start = time.perf_counter()
        readings[measure.label] = measure(found, task)
        seconds[measure.label] = time.perf_counter() - start
    record = Record(
        name=cell.name,
        setting={"scale": setting.scale, "network": original.architecture, "task": task.manifest()},
        method=describe(method) | {"label": cell.row},
        seeds={"training": cell.seed, "method": cell.drawn},
        seconds=seconds,
        command=setting.command,
        **reading_fields(readings, {measure.label: describe(measure) for measure in setting.measures}),
    )
    if cell.label in ("Original", *ANEW, *CHEATS):
        return record, []
    before, after = (Accuracy()(model, task).values for model in (original, found))
    return record, guards(after, before)
