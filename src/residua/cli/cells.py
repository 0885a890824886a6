"""Many models of one task, made and measured side by side."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from residua.cheats import CHEATS
from residua.checkpoint import load, save
from residua.cli.console import err, say
from residua.cli.options import parse_forget
from residua.cli.processes import side_by_side
from residua.cli.resuming import found_in
from residua.compare import guards, reading_fields
from residua.datasets import open_dataset
from residua.errors import InputError
from residua.measure import Accuracy, ForgetOutputs, Measure, Membership, Recovery
from residua.networks import build, stem_for
from residua.recipes import WIDTH, Scale, pretraining, unlearning
from residua.record import Record, describe
from residua.split import Split
from residua.task import ForgetTask
from residua.training import seeded
from residua.unlearn import find

NETWORK = "resnet18"
# Nothing of Original's weights goes into these, so they need not wait for it.
ANEW = ("Retrain", "Random")
# Original's encoder under one head or another: who measures them in a row fits its critics once.
SAME_ENCODER = ("Original", "HD", *CHEATS)
# What trains no network is quickly made.
QUICK = (*SAME_ENCODER, "Random")
# The columns of the paper's tables and recovery; IDI needs the information curve besides.
FULL_STACK: tuple[Measure, ...] = (Accuracy(), Membership(), ForgetOutputs(), Recovery())


class CannotDo(InputError):
    """A method cannot do the task, or diverged: its row is left out, and the others go on."""


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


@dataclass(frozen=True)
class Job:
    """What one process does in one go: cells of one seed in a row or, where there are none, their Original."""

    seed: int
    cells: tuple[Cell, ...] = ()

    @property
    def needs_original(self) -> bool:
        return any(cell.label not in ANEW for cell in self.cells)


def queue(cells: Iterable[Cell]) -> list[Job]:
    """Seed by seed: Original, which others wait for, then what trains a network, in the order given, then what
    is quickly made. Long jobs begun last would leave the other processes idle.
    """
    found: list[Job] = []
    for seed, group in itertools.groupby(sorted(cells, key=lambda cell: cell.seed), lambda cell: cell.seed):
        own = list(group)
        jobs = [Job(seed, (cell,)) for cell in own if cell.label not in QUICK]
        same = tuple(cell for label in SAME_ENCODER for cell in own if cell.label == label)
        jobs += [Job(seed, same)] if same else []
        jobs += [Job(seed, (cell,)) for cell in own if cell.label == "Random"]
        found += [Job(seed)] if any(job.needs_original for job in jobs) else []
        found += jobs
    return found


def records_of(setting: Setting, cells: Sequence[Cell], out: Path, jobs: int) -> list[Record]:
    """The record of every cell; those that are not in `out` are made, and kept there as soon as they are.

    One that is there and was made with other settings is refused: a file's name does not say what is in it.
    """
    task = _task(setting.data, setting.forget)
    manifest = task.manifest()
    asked = {cell.name: _asked(setting, cell, task, manifest) for cell in cells}
    kept = {name: record for name in asked if (record := found_in(out, name, asked[name])) is not None}
    for record in run_cells(setting, [cell for cell in cells if cell.name not in kept], jobs):
        record.write(out)
        kept[record.name] = record
    if not kept:
        raise InputError(f"no method can do --forget {setting.forget} on {setting.data}; see what was said")
    return [kept[name] for name in asked if name in kept]


@contextlib.contextmanager
def kept_in(weights: Path | None) -> Iterator[Path]:
    """The folder for models, or one that is gone afterwards."""
    with tempfile.TemporaryDirectory() as passing:
        yield weights or Path(passing)


def run_cells(setting: Setting, cells: Iterable[Cell], jobs: int) -> Iterator[Record]:
    """Records in the order in which they are finished. A method that cannot do the task is said, and left out.

    An Original that is not among the setting's weights is trained first. One job runs in this process.
    """
    waiting = queue(cells)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        side_by_side(jobs) as pool,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress,
    ):
        bar = progress.add_task("models", total=sum(len(job.cells) for job in waiting))
        running: dict[Future, Job] = {}
        accuracies: dict[int, Mapping[str, float]] = {}  # of each Original that is there
        while running or waiting:
            ready = [job for job in waiting if job.seed in accuracies or not job.needs_original]
            for job in ready[: jobs - len(running)]:
                waiting.remove(job)
                future: Future
                if job.cells:
                    future = pool.submit(_run_in_a_row, setting, job.cells, accuracies.get(job.seed))
                else:
                    future = pool.submit(_original, setting, job.seed)
                running[future] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                if not job.cells:
                    accuracies[job.seed], seconds = future.result()
                    if seconds is not None:
                        say(f"seed {job.seed}: Original trained in {seconds:.1f} s")
                    continue
                for cell, (record, words) in zip(job.cells, future.result(), strict=True):
                    progress.update(bar, advance=1, description=f"seed {job.seed}: {cell.row} done")
                    say(f"seed {job.seed}: {words}")
                    if record is not None:
                        yield record


@functools.lru_cache(maxsize=1)
def _task(data: str, forget: str) -> ForgetTask:
    return parse_forget(open_dataset(data), forget)


def network_fields(classes: int, shape: tuple[int, int, int], scale: Scale) -> dict[str, Any]:
    """Which network images of this shape get at this scale: the arguments of `networks.build`."""
    channels, side, _ = shape
    fields = {"classes": classes, "channels": channels, "width": WIDTH[scale], "stem": stem_for(side)}
    return {"network": NETWORK} | fields


def file_name(label: str) -> str:
    """COLA+ becomes cola-plus, for labels that name files."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower().replace("+", " plus"))


def _original(setting: Setting, seed: int) -> tuple[Mapping[str, float], float | None]:
    """Trains and saves it if it is not there; its accuracies, and the seconds that the training took."""
    task = _task(setting.data, setting.forget)
    place, seconds = setting.original(seed), None
    network = network_fields(task.classes, task.retain.shape, setting.scale)
    recipe = pretraining(setting.scale, task.dataset, NETWORK)
    name = f"{place.stem}.training"
    made: dict[str, Any] = {
        "setting": {"network": network, "dataset": task.dataset, "train": _in_order(task.train).digest()},
        "method": describe(recipe),
        "seeds": {"training": seed},
    }
    if place.exists():
        found_in(place.parent, name, made)  # where nothing is told of its training, its network must do
    else:
        with seeded(seed):
            start = time.perf_counter()
            model = recipe(build(**network), task.train)
            seconds = time.perf_counter() - start
        save(model, place)
        trained = Record(name=name, **made, readings={}, seconds={"train": seconds}, command=setting.command)
        trained.write(place.parent)
    return Accuracy()(load(place, expect=network), task).values, seconds


def _in_order(split: Split) -> Split:
    """As in the data set: an Original may serve tasks that forget different examples."""
    return split.subset(torch.argsort(split.index))


def _run_in_a_row(
    setting: Setting, cells: Sequence[Cell], before: Mapping[str, float] | None
) -> list[tuple[Record | None, str]]:
    """For each cell its record, if its method can do the task, and what is to be said of it."""
    found: list[tuple[Record | None, str]] = []
    for cell in cells:
        try:
            record, warnings = _run(setting, cell, before)
        except CannotDo as error:
            found.append((None, f"{cell.row} is left out: {error}"))
            continue
        took = f"{cell.row} took {record.seconds['RTE']:.1f} s"
        found.append((record, ": ".join([took, "; ".join(warnings)]) if warnings else took))
    return found


def _method(setting: Setting, cell: Cell, task: ForgetTask) -> Any:
    recipe = unlearning(setting.scale, task.scenario, task.dataset, NETWORK).get(cell.label, {})
    return CHEATS.get(cell.label) or find(cell.label, **recipe)


def _asked(setting: Setting, cell: Cell, task: ForgetTask, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the record of this cell depends on."""
    network = network_fields(task.classes, task.retain.shape, setting.scale)
    return {
        "setting": {
            "scale": setting.scale,
            "network": network,
            "task": manifest,
        },
        "method": describe(_method(setting, cell, task)) | {"label": cell.row},
        "seeds": {"training": cell.seed, "method": cell.drawn},
        "measures": {measure.label: describe(measure) for measure in setting.measures},
    }


def _run(setting: Setting, cell: Cell, before: Mapping[str, float] | None) -> tuple[Record, list[str]]:
    """Makes and measures one model; `before` are Original's accuracies, for those that are compared with it."""
    task = _task(setting.data, setting.forget)
    network = network_fields(task.classes, task.retain.shape, setting.scale)
    place = setting.original(cell.seed)
    original = build(**network) if cell.label in ANEW else load(place, expect=network)
    method = _method(setting, cell, task)
    with seeded(cell.drawn):
        start = time.perf_counter()
        try:
            found = method(original, task)
        except InputError as error:
            raise CannotDo(str(error)) from error
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
        seconds=seconds,
        command=setting.command,
        **_asked(setting, cell, task, task.manifest())
        | reading_fields(readings, {measure.label: describe(measure) for measure in setting.measures}),
    )
    if before is None or cell.label in ("Original", *ANEW, *CHEATS):
        return record, []
    said = readings.get(Accuracy.label) or Accuracy()(found, task)
    return record, guards(
        said.values, before, scenario=task.scenario, samples=len(task.forget), settings=describe(method)
    )
