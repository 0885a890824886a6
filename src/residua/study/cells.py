"""Cells: train, unlearn, measure. The key of a cell is a hash of its inputs, never a path."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.device import chosen_precision, clock, machine_load
from residua.errors import InputError
from residua.measure import Accuracy, Measure
from residua.models.checkpoint import Checkpoint
from residua.models.classifier import Classifier, weights_digest
from residua.models.foreign.opening import begin, started
from residua.models.networks import build
from residua.record import describe
from residua.study.store import Result, Store
from residua.training.keeping import unkept
from residua.training.loop import Tick, seeded, watching
from residua.training.pretraining import Pretraining
from residua.unlearn import Unlearner, traits

# Raised by hand when a package's code gives another answer for the same inputs. A method or measure may have a
# `revision` of its own beside these.
REVISIONS = {"train": 1, "unlearn": 1, "measure": 1}
# What a training declares to cost beside its epochs: others wait for it, so it begins before them.
FIRST = 1e6
# Seeds: one policy for all studies. Original number s is trained from s. Whatever is made from scratch (Retrain, Random)
# has seeds of its own, because a Retrain that draws what Original drew would not be independent of it; a second Retrain
# is draw 1. Unlearning has others again. Estimation has none here: the measures carry their own `seed`, the same for
# every model of a study, so that equal models have equal readings. More Originals than this would share seeds with Retrains.
MOST = 1_000_000


def train_seed(original: int) -> int:
    """The seed of Original number `original`."""
    if not 0 <= original < MOST:
        raise InputError(f"seed {original} is not usable in a study; choose one from 0 to {MOST - 1}")
    return original


def scratch_seed(original: int, draw: int = 0) -> int:
    """The seed of the Retrain, or the random network, that is compared with Original number `original`."""
    return (1 + draw) * MOST + train_seed(original)


def unlearn_seed(original: int, draw: int = 0) -> int:
    """The seed of an unlearning run that starts from Original number `original`."""
    return (1000 + draw) * MOST + train_seed(original)


def derived_seed(*what: object) -> int:
    """A seed for one of many things that are numbered in several ways, such as shadow models and their forget sets."""
    return int(hashlib.sha256(json.dumps(what).encode()).hexdigest()[:15], 16)


@dataclass(frozen=True)
class Output:
    """The output of a cell: plain JSON values, and arrays."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Context:
    """The data that all cells of a study share: the tasks, whose hashes are part of every key, and the device."""

    tasks: Mapping[str, ForgetTask]
    device: str = "cpu"
    shadows: Any = None  # those of U-LiRA, which has no task
    original: Classifier | None = None  # what `tune` was given instead of training one

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """The part of each task in the keys of its cells; hashing all images takes a while, so it is done once."""
        return {
            name: {
                "manifest": task.manifest(),
                "train": split_facts(task.train),
                "scaling": [task.retain.mean, task.retain.std, task.retain.size],
            }
            for name, task in self.tasks.items()
        }


class Cell(Protocol):
    """One piece of work. `parents` are the cells whose results it needs."""

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def parents(self) -> Sequence[Cell]: ...

    @property
    def cost(self) -> float:
        """A rough estimate of the time that it takes; expensive cells begin first."""

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        """Everything that the result depends on, as plain values."""

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output: ...


@dataclass(frozen=True, eq=False)
class Training:
    """An Original: it depends on all training data and on none of the forgetting."""

    kind: ClassVar[str] = "train"

    name: str
    task: str
    network: Mapping[str, Any]
    pretraining: Pretraining
    seed: int
    parents: tuple[Cell, ...] = ()

    @property
    def cost(self) -> float:
        return FIRST + self.pretraining.epochs

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        data = context.facts[self.task]["train"]
        return training_inputs(self.network, self.pretraining, data, self.seed, context.device)

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        data = context.tasks[self.task].train
        return trained(self.network, self.pretraining, data, self.seed, context.device, store)


@dataclass(frozen=True, eq=False)
class Unlearning:
    """One method on one Original. A model made from scratch needs the architecture alone, and does not wait.

    With `beside`, the last parent made a model that the method is given, too.
    """

    kind: ClassVar[str] = "unlearn"

    name: str
    task: str
    network: Mapping[str, Any]
    method: Unlearner
    seed: int
    parents: tuple[Cell, ...]
    trajectory: bool = field(default=False, kw_only=True)
    beside: bool = field(default=False, kw_only=True)

    @property
    def cost(self) -> float:
        return 0.0 if traits(self.method).quick else 1.0 + _epochs(describe(self.method)["fields"])

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        more = {"trajectory": True} if self.trajectory else {}
        more |= {"beside": parents[-1].values["weights"]} if self.beside else {}
        return {
            "revision": [REVISIONS["unlearn"], getattr(self.method, "revision", 1)],
            "method": describe(self.method),
            "task": context.facts[self.task]["manifest"]["sha256"],
            "scaling": context.facts[self.task]["scaling"],
            "network": dict(self.network),
            "original": parents[0].values["weights"] if parents else None,
            "seed": self.seed,
            "device": kind_of(context.device),
        } | more

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        followed = Trajectory(context.tasks[self.task])
        with contextlib.ExitStack() as stack:
            if self.trajectory:  # all of it: what a killed run kept of a training has no trajectory
                stack.enter_context(unkept())
                stack.enter_context(watching(followed))
            start = time.process_time()
            model, spent = self.make(context, store, parents)
            cpu = time.process_time() - start
        values = kept(store, model, keep=traits(self.method).savable) | {"RTE": spent - followed.seconds}
        if not self.trajectory and kind_of(context.device) == "cpu":  # a GPU's work is not the processor's
            values["RTE.cpu"] = cpu
        values["RTE.load"] = machine_load()
        return Output(values, {"trajectory": followed.array()} if followed.rows else {})

    def make(self, context: Context, store: Store, parents: Sequence[Result]) -> tuple[Classifier, float]:
        """The model, and the seconds that the method took."""
        original = self.original(context, store, parents)
        given = {}
        if self.beside:
            given["retrained"] = store.model(parents[-1].values["weights"], context.device)
        with seeded(self.seed):
            start = clock(context.device)
            model = self.method(original, context.tasks[self.task], **given)
            return model, clock(context.device) - start

    def original(self, context: Context, store: Store, parents: Sequence[Result]) -> Classifier:
        """The model that the method starts from."""
        if not parents:
            return network_of(self.network).to(context.device)
        model = store.model(parents[0].values["weights"], context.device)
        return started(model, self.network["init"].checkpoint) if "init" in self.network else model


@dataclass(frozen=True, eq=False)
class Measurement:
    """One measure on one model. Measures that read features alone are keyed by the encoder: equal encoders share them."""

    kind: ClassVar[str] = "measure"

    name: str
    measure: Measure
    made: Unlearning

    @property
    def parents(self) -> tuple[Cell, ...]:
        return (self.made, *self.made.parents)

    @property
    def cost(self) -> float:
        return self.made.cost

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        made = parents[0]
        if getattr(self.measure, "reads_encoder_only", False):
            model = {"encoder": made.values["encoder"]}
        elif made.model is not None:
            model = {"weights": made.model}
        else:
            model = {"cell": made.key}  # the weights of a cheat do not say what its head does with them
        return {
            "revision": [REVISIONS["measure"], getattr(self.measure, "revision", 1)],
            "measure": describe(self.measure),
            "task": context.facts[self.made.task]["manifest"]["sha256"],
            "scaling": context.facts[self.made.task]["scaling"],
            "model": model | {"architecture": made.values["architecture"]},
            "device": kind_of(context.device),
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        made = parents[0]
        if made.model is not None:
            model = store.model(made.model, context.device)
        else:
            model, _ = self.made.make(context, store, parents[1:])
        try:
            reading = self.measure(model, context.tasks[self.made.task])
        except InputError as error:
            return Output({"refused": str(error)})
        values = {
            "values": dict(reading.values),
            "notes": dict(reading.notes),
            "about": dict(reading.about),
            "reading": reading.kind,
            "seconds": dict(reading.seconds),
        }
        return Output(values, dict(reading.arrays))


@dataclass(frozen=True)
class Init:
    """A file of starting weights; keys of cells hold its content's hash, not its place."""

    path: str
    sha256: str

    def __str__(self) -> str:
        return self.sha256

    @property
    def checkpoint(self) -> Checkpoint:
        """The file, read once by each process."""
        return _read_once(self.path, self.sha256)


def starting_file(path: str | Path) -> Init:
    """The starting weights in this file, `init` of a study's network."""
    found = Checkpoint(path)
    return Init(str(Path(path).absolute()), found.sha256)


@lru_cache(maxsize=2)
def _read_once(path: str, sha256: str) -> Checkpoint:
    found = Checkpoint(path)
    if found.sha256 != sha256:
        raise InputError(f"{path} was changed while the study ran; run it again")
    return found


def network_of(fields: Mapping[str, Any]) -> Classifier:
    """The network of these arguments of `networks.build`, drawn; with an `init` it begins with those weights."""
    model = build(**{name: value for name, value in fields.items() if name != "init"})
    return begin(model, fields["init"].checkpoint) if "init" in fields else model


def training_inputs(
    network: Mapping[str, Any], pretraining: Pretraining, data: list[Any], seed: int, device: str
) -> dict[str, Any]:
    """The inputs of a training on data with these `split_facts`."""
    return {
        "revision": REVISIONS["train"],
        "network": dict(network),
        "pretraining": describe(pretraining)["fields"],
        "data": data,
        "seed": seed,
        "device": kind_of(device),
    }


def trained(
    network: Mapping[str, Any], pretraining: Pretraining, data: Split, seed: int, device: str, store: Store
) -> Output:
    """The output of a training, whose model is in the store."""
    with seeded(seed):
        start = clock(device)
        model = pretraining(network_of(network).to(device), data)
        spent = clock(device) - start
    return Output(kept(store, model, keep=True) | {"train": spent})


def kept(store: Store, model: Classifier, *, keep: bool) -> dict[str, Any]:
    """The values of a cell that made a model, which is kept in the store if it can be rebuilt."""
    keep = keep and "network" in model.architecture
    return {
        "weights": store.keep_model(model) if keep else weights_digest(model),
        "encoder": weights_digest(model.after(0)),
        "architecture": model.architecture,
        "kept": keep,
    }


def split_facts(split: Split) -> list[Any]:
    """The part of a split in keys: hash of images and labels, and normalisation."""
    return [split.digest(), split.mean, split.std, split.size]


def kind_of(device: str) -> str:
    """Numbers of another kind of device are other numbers; those of another device of one kind are not. The same holds of a
    number format that the caller has chosen."""
    chosen = chosen_precision()
    return device.partition(":")[0] + ("" if chosen == "auto" else f" {chosen}")


def _epochs(fields: Mapping[str, Any]) -> float:
    """All epochs among the fields: the time of a method grows with them."""
    inner = sum(_epochs(value) for value in fields.values() if isinstance(value, Mapping))
    return inner + sum(
        value for name, value in fields.items() if name.endswith("epochs") and isinstance(value, int | float)
    )


NAMES = ("UA", "RA", "TA")


@dataclass
class Trajectory:
    """One row of UA, RA, TA for each epoch of every `descend` in the body of `with watching(trajectory)`.

    Phases (collapse, then align) follow each other in one list. Looking changes nothing: the weights are those of a run
    that nobody watches. `seconds` is what the looking took.
    """

    task: ForgetTask
    rows: list[tuple[float, ...]] = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self, tick: Tick) -> None:
        if not tick.epoch_done or not isinstance(tick.model, Classifier):
            return
        start = clock(tick.model.device)
        values = Accuracy()(tick.model, self.task).values
        self.rows.append(tuple(values[name] for name in NAMES))
        self.seconds += clock(tick.model.device) - start

    def array(self) -> np.ndarray:
        """Epochs x (UA, RA, TA)."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(NAMES))
