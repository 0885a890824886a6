"""Study: settings x methods x seeds, as one object that runs, resumes, and ends in records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import Measure
from residua.measure.measuring import Taken, recorded
from residua.readings import Reading
from residua.record import MethodFacts, Record, Setting, TaskFacts, describe
from residua.roles import Role, role_of
from residua.study import cells as kinds
from residua.study.store import Result, Store
from residua.text import slug
from residua.training.pretraining import Pretraining
from residua.unlearn import Unlearner, traits

if TYPE_CHECKING:  # it imports this file
    from residua.study.schedule import Finished, Run


@dataclass(frozen=True)
class Row:
    """A method under a name of its own: a second Retrain is `Row("Second Retrain", Retrain(...), draw=1)`.

    Args:
        label: Name of the row.
        method: The method.
        draw: Number of its seed among those of the same method.
        beside: Earlier row whose model the method is given, too, as `retrained`.
        role: Part of the model in the study. By default that of the method; a second Retrain is a control, unless its
            label is that of a reference: Retrain 2, Retrain 3, ...
    """

    label: str
    method: Unlearner
    draw: int = 0
    beside: str | None = None
    role: Role | None = None

    @property
    def part(self) -> Role:
        """The role, declared or derived."""
        own, named = traits(self.method).role, role_of(self.label)
        if self.role or named != "method":
            return self.role or named
        return own if own in ("method", "control") else "control"


Methods = Sequence[Unlearner | Row]


@dataclass(frozen=True, eq=False)
class Study:
    """Models to be made and measured. A method that cannot do a task is left out of it.

    Args:
        tasks: Forgetting tasks by name.
        networks: Arguments of `networks.build` by name; beside them `init`, a `cells.starting_file`, where Originals and
            whatever is retrained begin with its weights.
        pretraining: Training of every Original; may be a function of (task, network).
        methods: Methods that are applied to it; may be a function of (task, network).
        measures: Measures that are taken of every model.
        seeds: Numbers of the Originals.
        draws: Seeds with which every unlearning of each Original is repeated.
        estimation: Seed of every measure that has one.
        trajectories: Also read UA, RA and TA after every epoch of every method, into the records.
        scale: Name of the scale, for the records.
        name: Name of the study.
        prefix: Begins the names of its rows, so that records of two studies can be in one folder.
        compact: Records keep the arrays that tables and figures need, in a tenth of the space (`folder.compact`).
    """

    tasks: Mapping[str, ForgetTask]
    networks: Mapping[str, Mapping[str, Any]]
    pretraining: Pretraining | Callable[[ForgetTask, Mapping[str, Any]], Pretraining]
    methods: Methods | Callable[[ForgetTask, Mapping[str, Any]], Methods]
    measures: Sequence[Measure]
    seeds: Sequence[int] = (0,)
    draws: int = 1
    estimation: int | None = None
    trajectories: bool = False
    scale: str = "custom"
    name: str = "study"
    prefix: str = ""
    compact: bool = False

    def __post_init__(self) -> None:
        for part in ("tasks", "networks", "measures", "seeds"):
            if not getattr(self, part):
                raise InputError(f"the study {self.name} has no {part}; give at least one")
        names = [row.name for row in self.rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"the study {self.name} has two rows named {twice[0]}; rename one of the methods")

    @cached_property
    def rows(self) -> list[PlannedRow]:
        """Every model that is measured, with the cells that it takes. Originals and equal trainings are shared."""
        trainings: dict[tuple[str, str, int], kinds.Training] = {}
        rows: list[PlannedRow] = []
        for task_name, task in self.tasks.items():
            for network_name, network in self.networks.items():
                several = [task_name] if len(self.tasks) > 1 else []
                several += [network_name] if len(self.networks) > 1 else []
                prefix = self.prefix + "".join(f"{slug(part)}-" for part in several)
                methods = self.methods(task, network) if callable(self.methods) else self.methods
                pretraining = self.pretraining
                if not isinstance(pretraining, Pretraining):
                    pretraining = pretraining(task, network)
                for seed in self.seeds:
                    name = f"{prefix}seed{seed}-training"
                    training = kinds.Training(name, task_name, network, pretraining, kinds.train_seed(seed))
                    training = trainings.setdefault((task.dataset, network_name, seed), training)
                    rows += self._rows(prefix, task_name, network, seed, methods, training)
        return rows

    @cached_property
    def cells(self) -> list[kinds.Cell]:
        """Every cell once, parents before children."""
        return list(dict.fromkeys(cell for row in self.rows for cell in row.cells))

    def run(self, out: str | Path, **how: Any) -> Finished:
        """`study.run(out, jobs=2)`: make what is missing; `how` are the fields of `executors.How`."""
        from residua.study.schedule import run

        return run(self, out, **how)

    def definition(self) -> dict[str, Any]:
        """The study as plain values: kept beside its results, and compared with those of the next run."""
        return {
            "name": self.name,
            "scale": self.scale,
            "tasks": {name: task.manifest()["sha256"] for name, task in self.tasks.items()},
            "networks": {name: dict(network) for name, network in self.networks.items()},
            "pretraining": {row.training.name: describe(row.training.pretraining)["fields"] for row in self.rows},
            "methods": {row.label: describe(row.made.method) for row in self.rows},
            "measures": {measure.label: describe(measure) for measure in self._measures()},
            "seeds": list(self.seeds),
            "draws": self.draws,
        } | ({"trajectories": True} if self.trajectories else {})

    def _rows(
        self, prefix: str, task: str, network: Mapping[str, Any], seed: int, methods: Methods, training: kinds.Training
    ) -> Iterator[PlannedRow]:
        """The rows of one Original."""
        earlier: dict[str, kinds.Unlearning] = {}
        for given in methods:
            row = given if isinstance(given, Row) else Row(given.label, given)
            own = traits(row.method)
            if self.tasks[task].scenario not in own.scenarios:
                continue
            parents: tuple[kinds.Cell, ...] = () if own.from_scratch else (training,)
            if row.beside is not None and row.beside not in earlier:
                raise InputError(
                    f"{row.label} needs the model of {row.beside}, which is not an earlier row of the study {self.name}; "
                    "put that row before it"
                )
            parents += (earlier[row.beside],) if row.beside is not None else ()
            seed_of = kinds.scratch_seed if own.from_scratch else kinds.unlearn_seed
            # What is made from nothing is not unlearning, and Original itself is always the same.
            once = own.from_scratch or own.role == "original"
            for draw in range(1 if once else self.draws):
                label = row.label if draw == 0 else f"{row.label} draw {draw}"
                name = f"{prefix}seed{seed}-{slug(label)}"
                made = kinds.Unlearning(
                    name, task, network, row.method, seed_of(seed, row.draw + draw), parents,
                    trajectory=self.trajectories, beside=row.beside is not None,
                )  # fmt: skip
                earlier.setdefault(row.label, made)
                measurements = tuple(kinds.Measurement(f"{name}/{m.label}", m, made) for m in self._measures())
                yield PlannedRow(name, row.label, row.part, seed, draw, training, made, measurements)

    def _measures(self) -> list[Measure]:
        if self.estimation is None:
            return list(self.measures)
        return [
            dataclasses.replace(measure, seed=self.estimation)  # type: ignore[type-var]
            if "seed" in {each.name for each in dataclasses.fields(measure)}  # type: ignore[arg-type]
            else measure
            for measure in self.measures
        ]


@dataclass(frozen=True, eq=False)
class PlannedRow:
    """One model of a study: the cells that make it and those that measure it."""

    name: str
    label: str
    role: Role
    seed: int
    draw: int
    training: kinds.Training
    made: kinds.Unlearning
    measurements: tuple[kinds.Measurement, ...] = field(repr=False)

    @property
    def cells(self) -> tuple[kinds.Cell, ...]:
        """Every cell that its record needs, parents before children."""
        return (*self.made.parents, self.made, *self.measurements)

    def record(self, run: Run, scale: str) -> Record:
        """The record of this row, from finished cells alone."""
        results, made = run.results, run.results[self.made]
        task = TaskFacts(**run.context.facts[self.made.task]["manifest"])
        return recorded(
            self.name,
            [_taken(cell, results.get(cell), run.store) for cell in self.measurements],
            method=MethodFacts(
                **describe(self.made.method) | {"label": self.label, "role": self.role},
                weights=made.values["weights"],
                init=str(self.made.network["init"]) if "init" in self.made.network else None,
                original=results[self.training].values["weights"] if self.made.parents else None,
            ),
            setting=Setting(scale=scale, network=made.values["architecture"], task=task),
            seeds={"training": self.seed, "method": self.made.seed} | ({"draw": self.draw} if self.draw else {}),
            seconds={name: made.values[name] for name in ("RTE", "RTE.cpu", "RTE.load") if name in made.values},
            software=made.software,
            command=made.command,
            arrays=run.store.arrays(made),
        )


def _taken(cell: kinds.Measurement, result: Result | None, store: Store) -> Taken:
    if result is None:
        return Taken(cell.measure, None, refused="it failed")
    why = result.values.get("refused")
    reading = reading_of(result, store) if why is None else None
    return Taken(cell.measure, reading, result.seconds, why or "")


def reading_of(result: Result, store: Store) -> Reading:
    """The reading of a finished measurement."""
    values = result.values
    kind = Reading.kinds.get(values["reading"], Reading)
    facts = {name: values.get(name, {}) for name in ("about", "notes", "seconds")}
    return kind(values["values"], store.arrays(result), **facts)
