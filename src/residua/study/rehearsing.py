"""Rehearsal of a study, and its sizes: what would fail after days is found in minutes, and what it takes is said before.

Sizes are counted on PyTorch's meta device, which computes shapes and no numbers, so they are those of full width on any
machine. A rehearsal makes every model by one batch of every phase and takes every measure of one of them, at full width
and with few samples: on a GPU with whole batches, on a CPU with a handful.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from residua import room
from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.device import autocast, clock, safe_kernels
from residua.errors import InputError, first_line
from residua.measure import InformationCurve, Measure
from residua.measure._outputs import _laid_out, logits
from residua.measure.information.samples import FEWEST, samples
from residua.models.classifier import Classifier, clone
from residua.models.networks import build
from residua.study.cells import Training, Unlearning, network_of
from residua.study.definition import PlannedRow, Study
from residua.training.loop import cross_entropy, seeded
from residua.training.settings import Count, Epochs, described
from residua.unlearn import traits

# Samples of a set in a rehearsal on a CPU, of small and of large images; and those that measures have of each label, and
# of unseen images, which attackers need.
FEW, FEWER, LARGE = 8, 2, 64
SOME, UNSEEN = FEWEST + 4, 12
# Weights, gradient, momentum, and the model that a method started from.
COPIES = 4
# Settings of measures that only make them longer, and their shortest values.
SHORT = {"steps": 1, "rounds": 1, "repeats": 1, "epochs": 1, "restarts": 1}


@dataclass(frozen=True)
class Sizes:
    """Bytes of one task and network of a study.

    Attributes:
        name: Task and network.
        weights: Bytes of a model.
        models: Number of models that the store keeps.
        batch: The largest batch of a training.
        image: Bytes that a training holds of each image of a batch.
        pixels: Bytes of the images, where they are in memory.
        features: Bytes of the features of each block that a curve reads, and the place that this machine has for them.
    """

    name: str
    weights: int
    models: int
    batch: int
    image: int
    pixels: int
    features: dict[int, tuple[int, room.Place]]

    @property
    def training(self) -> int:
        """Bytes of the device's memory that a training takes, roughly."""
        return COPIES * self.weights + self.batch * self.image

    @property
    def disk(self) -> int:
        """Bytes of the store's models."""
        return self.models * self.weights


def sizes(study: Study) -> list[Sizes]:
    """The sizes of a study by task and network; nothing is computed or read but shapes."""
    groups: dict[tuple[str, str], list[PlannedRow]] = {}
    for row in study.rows:
        groups.setdefault((row.made.task, repr(row.made.network)), []).append(row)
    return [_sizes(study, rows) for rows in groups.values()]


def _sizes(study: Study, rows: list[PlannedRow]) -> Sizes:
    task, fields = study.tasks[rows[0].made.task], rows[0].made.network
    with torch.device("meta"):
        model = build(**{name: value for name, value in fields.items() if name != "init"})
    n, blocks = _curve(study, model, task)
    x = torch.empty(2, *task.retain.shape, device="meta")
    shapes = {b: tuple(_laid_out(z).shape[1:]) for b, z in model.features(x, blocks).items()}
    if model.depth in shapes:
        shapes[model.depth] = shapes[model.depth][-1:]
    bytes_of = {block: 4 * n * math.prod(shape) for block, shape in shapes.items()}
    found = room.places(bytes_of)
    made = [row.made for row in rows]
    batches = [b for cell in (rows[0].training, *made) for b in _batches(getattr(cell, "method", None) or cell)]
    resident = hasattr(task.retain.images, "pixels")
    return Sizes(
        name=f"{task.dataset}, {fields['network']}",
        weights=sum(t.numel() * t.element_size() for t in model.state_dict().values()),
        models=sum(traits(cell.method).savable for cell in made) + len({row.training for row in rows}),
        batch=max([*batches, 1]),
        image=_saved_bytes(model, x, task.classes) // len(x),
        pixels=sum(len(s) for s in task.splits.values()) * math.prod(task.retain.images.shape) if resident else 0,
        features={block: (size, found[block]) for block, size in bytes_of.items()},
    )  # fmt: skip


def _curve(study: Study, model: Classifier, task: ForgetTask) -> tuple[int, list[int]]:
    """The samples and blocks of the largest curve."""
    curves = [each for each in study.measures if isinstance(each, InformationCurve)]
    blocks = sorted({block for each in curves for block in each._blocks(model)})
    counts = [0]
    for each in curves:
        with seeded(0), contextlib.suppress(InputError):  # too few samples for a curve: the study will say so
            counts.append(len(samples(task, ratio=each.ratio, fit_on=each.fit_on, folds=each.folds).y))
    return max(counts), blocks


def _batches(settings: Any) -> Iterator[int]:
    """Every batch size among the fields of a method, a training or a cell."""
    for field in dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ():
        value = getattr(settings, field.name)
        if field.name.endswith("batch") and isinstance(value, int):
            yield value
        elif field.name == "pretraining":
            yield from _batches(value)


def _saved_bytes(model: Classifier, x: Tensor, classes: int) -> int:
    """Bytes that autograd keeps of this batch for the backward pass, without the weights."""
    learner = clone(model).train()
    weights = {tensor.untyped_storage()._cdata for tensor in learner.state_dict().values()}
    kept: dict[int, Any] = {}  # storages, alive, so that no two have one number

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        cross_entropy(learner, x, torch.empty(len(x), dtype=torch.int64, device=x.device))
    return sum(storage.nbytes() for number, storage in kept.items() if number not in weights)


@dataclass(frozen=True)
class Phase:
    """One model or reading of a rehearsal: its seconds, and why it failed, if it did."""

    name: str
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Rehearsal:
    """All phases, and an estimate of the seconds that the trainings of the study take, one after another."""

    phases: list[Phase]
    seconds: float

    @property
    def failures(self) -> dict[str, str]:
        return {phase.name: phase.failure for phase in self.phases if phase.failure}


def rehearse(study: Study, device: str, tell: Callable[[Phase], None] = lambda phase: None) -> Rehearsal:
    """Make every model of one seed by one batch of every phase, and take every measure of one model."""
    phases: list[Phase] = []

    def attempt(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made, failure = None, ""
        try:
            made = call()
        except Exception as error:  # whatever it is, it would end the cell
            failure = f"{type(error).__name__}: {first_line(error)}"
        phases.append(Phase(name, time.perf_counter() - start, failure))
        tell(phases[-1])
        return made

    groups: dict[Training, list[PlannedRow]] = {}
    for row in study.rows:
        groups.setdefault(row.training, []).append(row)
    once = {(cell.task, repr(cell.network)): cell for cell in reversed(groups)}
    seconds = 0.0
    for training in once.values():
        rows = groups[training]
        task = study.tasks[training.task]
        for_training = _few(task, _samples(rows, task, device), FEWER)
        model = attempt(training.name, partial(_trained, training, for_training, device))
        if model is None:
            continue
        seconds += _seconds(model, training, study, task, device)
        for row in rows:
            attempt(row.name, partial(_unlearned, row.made, model, for_training))
        read = _few(task, SOME, UNSEEN)
        for measure in study.measures:
            short = _short(measure, model, device)
            attempt(f"{training.name}/{measure.label}", partial(short, model, read))
    return Rehearsal(phases, seconds)


def _samples(rows: list[PlannedRow], task: ForgetTask, device: str) -> int:
    """Samples of each set: whole batches on a GPU."""
    batches = (b for row in rows for b in (*_batches(row.training), *_batches(row.made.method)))
    return _handful(task, device) or max(batches)


def _handful(task: ForgetTask, device: str) -> int | None:
    """The most samples of a set or batch on a CPU; on a GPU as many as there are."""
    if device != "cpu":
        return None
    return FEW if task.retain.shape[1] <= LARGE else FEWER


def _few(task: ForgetTask, n: int, unseen: int) -> ForgetTask:
    """The task with about `n` samples of each set; samples are forgotten of two classes, so that each has enough."""

    def some(split: Split, n: int) -> Split:
        if task.scenario == "random":
            labels = task.forget.labels.unique()[:2]
            split = split.subset(torch.isin(split.labels, labels).nonzero()[:, 0])
            each = [(split.labels == label).nonzero()[:n, 0] for label in labels]
            return split.subset(torch.cat(each).sort().values)
        return split.subset(torch.linspace(0, max(len(split) - 1, 0), min(n, len(split))).long())

    return dataclasses.replace(
        task,
        forget=some(task.forget, n),
        retain=some(task.retain, n),
        test=some(task.test, unseen),
        forget_test=some(task.forget_test, unseen),
    )


def shortest(settings: Any, most: int | None) -> Any:
    """The method or training with one epoch of each phase, and batches of at `most` so many; everything else stays.

    Sets are small already, but noise that a method makes comes in whole batches.
    """
    fields: dict[str, Any] = {}
    kind: Any = type(settings)
    for name, field in described(kind).items():
        if isinstance(field.setting, Epochs):
            fields[name] = max(1, field.setting.least)
        elif name == "pretraining":
            fields[name] = shortest(getattr(settings, name), most)
        elif name.endswith("_steps") and isinstance(field.setting, Count):
            fields[name] = 1
        elif most and name.endswith("batch") and isinstance(getattr(settings, name), int):
            fields[name] = min(getattr(settings, name), most)
    return dataclasses.replace(settings, **fields)


def _trained(training: Training, task: ForgetTask, device: str) -> Classifier:
    with seeded(training.seed):
        learner = network_of(training.network).to(device)
        return shortest(training.pretraining, _handful(task, device))(learner, task.train)


def _unlearned(cell: Unlearning, original: Classifier, task: ForgetTask) -> Classifier:
    given = {"retrained": original} if cell.beside else {}
    with seeded(cell.seed):
        model = shortest(cell.method, _handful(task, original.device.type))(original, task, **given)
    logits(model, task.test.subset(torch.arange(1)))  # measures are rehearsed with one model for all
    return model


def _short(measure: Measure, model: Classifier, device: str) -> Measure:
    """The measure with the fewest steps; on a CPU, of a curve of all blocks only the first and the last.

    A ViT's blocks are alike, so its last but one stands for the first, whose critic is the whole network.
    """
    own = {field.name for field in dataclasses.fields(measure)}  # type: ignore[arg-type]
    fields: dict[str, Any] = {name: value for name, value in SHORT.items() if name in own}
    if isinstance(measure, InformationCurve) and measure.last == model.depth and device == "cpu":
        first = model.depth - 1 if model.architecture.get("network") == "vit" else 1
        fields |= {"last": None, "blocks": (first, model.depth)}
    return dataclasses.replace(measure, **fields)  # type: ignore[type-var]


def _seconds(model: Classifier, training: Training, study: Study, task: ForgetTask, device: str) -> float:
    """Seconds of all trainings and unlearnings, from those of one step here and the epochs that cells declare."""
    n = FEWER if device == "cpu" else training.pretraining.batch
    x, y = next(iter(task.train.subset(torch.arange(min(n, len(task.train)))).batches(n, device=model.device)))
    learner = clone(model).train()
    spent = []
    for _ in range(1 if device == "cpu" else 2):  # a GPU's first one warms up; on a CPU the training before has
        start = clock(device)
        with safe_kernels(learner), autocast(training.pretraining.precision, model.device):
            cross_entropy(learner, x, y).backward()
        spent.append(clock(device) - start)
    cells = {cell for row in study.rows for cell in (row.training, row.made)}
    epochs = sum(c.pretraining.epochs if isinstance(c, Training) else max(0.0, c.cost - 1) for c in cells)
    return spent[-1] / len(x) * len(task.train) * epochs
