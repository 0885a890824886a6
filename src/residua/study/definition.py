"""Study: settings x methods x seeds, as one object that runs, goes on, and ends in records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.facts import MethodFacts, Setting, TaskFacts
from residua.measure import Measure
from residua.readings import Reading
from residua.record import Record, describe
from residua.study import seeding
from residua.study.cells import Cell, Measurement, Training, Unlearning
from residua.study.store import Result, Store
from residua.texts import slug
from residua.training.pretraining import Pretraining
from residua.unlearn import Original, Unlearner, traits


@dataclass(frozen=True)
class Row:
    """A method under a name of its own: a second Retrain is `Row("Second Retrain", Retrain(...), draw=1)`.

    `beside` names an earlier row whose model the method is given, too, as `retrained`.
    """

    label: str
    method: Unlearner
    draw: int = 0
    beside: str | None = None


Methods = Sequence[Unlearner | Row]


@dataclass(frozen=True, eq=False)
class Study:
    """What is to be made and measured.

    `tasks` and `networks` go by names; a network is the arguments of `networks.build`. `pretraining` trains every
    Original, and `methods` are what is done to it; both may be functions of (task, network) where hyperparameters
    depend on them. `seeds` number the Originals. `draws` repeats every unlearning of each with so many seeds. `estimation`,
    if it is given, is the seed of every measure that has one. `trajectories` also reads UA, RA and TA after every epoch
    of every method, into the records. A method that cannot do a task is left out of it. `prefix` begins the names of its
    rows, so that records of two studies can be in one folder. `compact` records keep what tables and figures need, in a
    tenth of the space (`compacting.py`).
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
            raise InputError(
                f"the study {self.name} has two rows named {twice[0]}; rename one of the methods"
            )

    @cached_property
    def rows(self) -> list[PlannedRow]:
        """Every model that is measured, with the cells that it takes. Originals and equal trainings are shared."""
        trainings: dict[tuple[str, str, int], Training] = {}
        return [
            row
            for task in self.tasks
            for network in self.networks
            for methods in [self._methods(task, network)]
            for seed in self.seeds
            for row in self._rows(task, network, seed, methods, trainings)
        ]

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell once, parents before children."""
        cells: dict[Cell, None] = {}
        for row in self.rows:
            cells |= dict.fromkeys((*row.made.parents, row.made, *row.measurements))
        return list(cells)

    def run(self, out: str | Path, **how: Any) -> Any:
        """`study.run(out, jobs=2)`: make what is missing; `how` are the fields of `computing.How`."""
        from residua.study.conducting import run  # it imports this file

        return run(self, out, **how)

    def definition(self) -> dict[str, Any]:
        """What the study is, as plain values: kept beside its results, and compared with those of the next run."""
        return {
            "name": self.name,
            "scale": self.scale,
            "tasks": {name: task.manifest()["sha256"] for name, task in self.tasks.items()},
            "networks": {name: dict(network) for name, network in self.networks.items()},
            "pretraining": {
                row.training.name: describe(row.training.pretraining)["fields"] for row in self.rows
            },
            "methods": {row.label: describe(row.made.method) for row in self.rows},
            "measures": {measure.label: describe(measure) for measure in self._measures()},
            "seeds": list(self.seeds),
            "draws": self.draws,
        } | ({"trajectories": True} if self.trajectories else {})

    def _methods(self, task: str, network: str) -> Methods:
        if callable(self.methods):
            return self.methods(self.tasks[task], self.networks[network])
        return self.methods

    def _rows(
        self,
        task_name: str,
        network_name: str,
        seed: int,
        methods: Methods,
        trainings: dict[tuple[str, str, int], Training],
    ) -> Iterator[PlannedRow]:
        task, network = self.tasks[task_name], self.networks[network_name]
        pretraining = (
            self.pretraining if isinstance(self.pretraining, Pretraining) else self.pretraining(task, network)
        )
        prefix = self._prefix(task_name, network_name)
        key = (task.dataset, network_name, seed)
        training = trainings.setdefault(
            key,
            Training(f"{prefix}seed{seed}-training", task_name, network, pretraining, seeding.training(seed)),
        )
        earlier: dict[str, Unlearning] = {}
        for given in methods:
            row = given if isinstance(given, Row) else Row(given.label, given)
            own = traits(row.method)
            if task.scenario not in own.scenarios:
                continue
            # What is made from nothing is not unlearning, and Original itself is always the same.
            once = own.from_scratch or isinstance(row.method, Original)
            for draw in range(1 if once else self.draws):
                number = row.draw + draw
                seed_of = seeding.from_scratch if own.from_scratch else seeding.unlearning
                label = row.label if draw == 0 else f"{row.label} draw {draw}"
                name = f"{prefix}seed{seed}-{slug(label)}"
                parents: tuple[Cell, ...] = () if own.from_scratch else (training,)
                parents += (self._beside(row, earlier),) if row.beside else ()
                made = Unlearning(
                    name, task_name, network, row.method, seed_of(seed, number), parents,
                    trajectory=self.trajectories, beside=row.beside is not None,
                )  # fmt: skip
                earlier.setdefault(row.label, made)
                measurements = tuple(Measurement(f"{name}/{m.label}", m, made) for m in self._measures())
                yield PlannedRow(name, row.label, seed, draw, training, made, measurements)

    def _beside(self, row: Row, earlier: Mapping[str, Unlearning]) -> Unlearning:
        if row.beside is None or row.beside not in earlier:
            raise InputError(
                f"{row.label} needs the model of {row.beside}, which is not an earlier row of the study {self.name}; "
                "put that row before it"
            )
        return earlier[row.beside]

    def _prefix(self, task: str, network: str) -> str:
        parts = [task] if len(self.tasks) > 1 else []
        parts += [network] if len(self.networks) > 1 else []
        return self.prefix + "".join(f"{slug(part)}-" for part in parts)

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
    """One model of a study: how it is made, and what is measured on it."""

    name: str
    label: str
    seed: int
    draw: int
    training: Training
    made: Unlearning
    measurements: tuple[Measurement, ...] = field(repr=False)

    def record(
        self, results: Mapping[Cell, Result], store: Store, scale: str, manifest: dict[str, Any]
    ) -> Record:
        """The record of this row, from finished cells alone."""
        made = results[self.made]
        record = Record(
            name=self.name,
            setting=Setting(scale=scale, network=made.values["architecture"], task=TaskFacts(**manifest)),
            method=MethodFacts(
                **describe(self.made.method) | {"label": self.label},
                weights=made.values["weights"],
                original=results[self.training].values["weights"] if self.made.parents else None,
            ),
            seeds={"training": self.seed, "method": self.made.seed}
            | ({"draw": self.draw} if self.draw else {}),
            readings={},
            seconds={"RTE": made.values["RTE"]},
            software=made.software,
            command=made.command,
            arrays=store.arrays(made),
        )
        for cell in self.measurements:
            result = results.get(cell)
            if result is None:
                record = record.and_read(cell.measure, None, 0.0, "it failed")
                continue
            why = result.values.get("refused")
            reading = None if why is not None else reading_of(result, store)
            record = record.and_read(cell.measure, reading, result.seconds, why or "")
        return record


def reading_of(result: Result, store: Store) -> Reading:
    """What a finished measurement found."""
    values = result.values
    kind = Reading.kinds.get(values["reading"], Reading)
    parts = values.get("seconds", {})  # results of 0.1.0 have none
    return kind(
        values["values"], store.arrays(result), about=values["about"], notes=values["notes"], seconds=parts
    )
