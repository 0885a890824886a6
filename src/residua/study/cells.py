"""Cells: train, unlearn, measure. Each is keyed by the content of what it depends on, never by a path."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.device import chosen_precision
from residua.errors import InputError
from residua.measure import Measure
from residua.models.classifier import Classifier, weights_digest
from residua.models.networks import build
from residua.record import describe
from residua.study.store import Result, Store
from residua.study.trajectory import Trajectory
from residua.training.keeping import unkept
from residua.training.loop import seeded
from residua.training.pretraining import Pretraining
from residua.unlearn import Unlearner, traits

# Raised by hand when a room's code gives another answer for the same inputs. A method or measure may have a
# `revision` of its own beside these.
REVISIONS = {"train": 1, "unlearn": 1, "measure": 1}
# What a training declares to cost beside its epochs: others wait for it, so it begins before them.
FIRST = 1e6


@dataclass(frozen=True)
class Output:
    """What a cell computed: plain JSON values, and arrays."""

    values: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Context:
    """What all cells of a study share and no key may miss: the tasks, with the hashes that stand for them."""

    tasks: Mapping[str, ForgetTask]
    device: str = "cpu"
    shadows: Any = None  # those of U-LiRA, which has no task
    original: Classifier | None = None  # what `tune` was given instead of training one

    def task_facts(self) -> dict[str, dict[str, Any]]:
        """What keys hold of each task; hashing all images takes a while, so it is done once."""
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
    def group(self) -> object:
        """Cells of one group run in a row in one process, because they share forward passes."""

    @property
    def cost(self) -> float:
        """A guess at how long it takes; what takes long begins first."""

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        """All that the answer depends on."""

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
    def group(self) -> object:
        return self

    @property
    def cost(self) -> float:
        return FIRST + self.pretraining.epochs

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        return {
            "revision": REVISIONS["train"],
            "network": dict(self.network),
            "pretraining": describe(self.pretraining)["fields"],
            "data": facts[self.task]["train"],
            "seed": self.seed,
            "device": kind_of(device),
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        with seeded(self.seed):
            start = time.perf_counter()
            network = build(**self.network).to(context.device)
            model = self.pretraining(network, context.tasks[self.task].train)
            spent = time.perf_counter() - start
        return Output(kept(store, model, keep=True) | {"train": spent})


@dataclass(frozen=True, eq=False)
class Unlearning:
    """One method on one Original. What is made from scratch needs its architecture alone, and does not wait.

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
    def group(self) -> object:
        return self

    @property
    def cost(self) -> float:
        return 0.0 if traits(self.method).quick else 1.0 + _epochs(describe(self.method)["fields"])

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        more = {"trajectory": True} if self.trajectory else {}
        more |= {"beside": parents[-1].values["weights"]} if self.beside else {}
        return {
            "revision": [REVISIONS["unlearn"], getattr(self.method, "revision", 1)],
            "method": describe(self.method),
            "task": facts[self.task]["manifest"]["sha256"],
            "scaling": facts[self.task]["scaling"],
            "network": dict(self.network),
            "original": parents[0].values["weights"] if parents else None,
            "seed": self.seed,
            "device": kind_of(device),
        } | more

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        followed = Trajectory(context.tasks[self.task])
        with contextlib.ExitStack() as stack:
            if self.trajectory:  # all of it: what a killed run kept of a training has no trajectory
                stack.enter_context(unkept())
                stack.enter_context(followed.following())
            model, spent = self.make(context, store, parents)
        values = kept(store, model, keep=traits(self.method).savable) | {"RTE": spent - followed.seconds}
        return Output(values, {"trajectory": followed.array()} if followed.rows else {})

    def make(self, context: Context, store: Store, parents: Sequence[Result]) -> tuple[Classifier, float]:
        """The model, and the seconds that the method took."""
        original = self.original(context, store, parents)
        given = {}
        if self.beside:
            given["retrained"] = store.model(parents[-1].values["weights"], context.device)
        with seeded(self.seed):
            start = time.perf_counter()
            model = self.method(original, context.tasks[self.task], **given)
            return model, time.perf_counter() - start

    def original(self, context: Context, store: Store, parents: Sequence[Result]) -> Classifier:
        """What the method starts from."""
        if parents:
            return store.model(parents[0].values["weights"], context.device)
        return build(**self.network).to(context.device)


@dataclass(frozen=True, eq=False)
class Measurement:
    """One measure on one model. What reads features alone is keyed by the encoder, so equal encoders share it."""

    kind: ClassVar[str] = "measure"

    name: str
    measure: Measure
    made: Unlearning

    @property
    def parents(self) -> tuple[Cell, ...]:
        return (self.made, *self.made.parents)

    @property
    def group(self) -> object:
        return self.made

    @property
    def cost(self) -> float:
        return self.made.cost

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
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
            "task": facts[self.made.task]["manifest"]["sha256"],
            "scaling": facts[self.made.task]["scaling"],
            "model": model | {"architecture": made.values["architecture"]},
            "device": kind_of(device),
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
    """What keys hold of the images and labels of a split."""
    return [split.digest(), split.mean, split.std, split.size]


def kind_of(device: str) -> str:
    """Numbers of another kind of device are other numbers; those of another device of one kind are not. The same holds of a
    number format that the caller has chosen."""
    chosen = chosen_precision()
    return device.partition(":")[0] + ("" if chosen == "auto" else f" {chosen}")


def _epochs(fields: Mapping[str, Any]) -> float:
    """All epochs among the fields: what a method takes grows with them."""
    inner = sum(_epochs(value) for value in fields.values() if isinstance(value, Mapping))
    return inner + sum(
        value for name, value in fields.items() if name.endswith("epochs") and isinstance(value, int | float)
    )
