"""RecordIndex: the records of a folder, found by what they say and not by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reproduction.labels import canonical
from residua.compare import readings_of
from residua.errors import InputError
from residua.files import read_text
from residua.readings import Curve, Reading
from residua.record import Record, TaskFacts
from residua.roles import role_of

# What every record has, and other JSON files beside records do not.
SIGNS = {"schema_version", "method", "setting", "readings", "seeds"}


@dataclass(eq=False)
class Model:
    """One model: a method with a seed on an Original, and all that was read of it, perhaps in several records."""

    label: str
    seed: int
    draw: int
    records: list[Record] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict, repr=False)  # what was computed of it, by the question

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """By the label of the measure; the first record that has it counts."""
        found: dict[str, Reading] = {}
        for record in self.records:
            found = readings_of(record) | found
        return found

    @property
    def curves(self) -> dict[str, Curve]:
        return {label: each for label, each in self.readings.items() if isinstance(each, Curve)}

    @property
    def seconds(self) -> dict[str, float]:
        return {name: value for record in reversed(self.records) for name, value in record.seconds.items()}

    @property
    def fields(self) -> dict[str, Any]:
        return next((record.method.fields for record in self.records if record.method.fields), {})

    @property
    def made_from(self) -> str | None:
        return next((r.method.original for r in self.records if r.method.original), None)

    @property
    def weights(self) -> str | None:
        return next((record.method.weights for record in self.records if record.method.weights), None)


@dataclass(eq=False)
class Group:
    """All models of one task, one network, one scale and one version of the program: only those are compared."""

    task: TaskFacts
    network: dict[str, Any]
    scale: str
    version: str
    models: list[Model] = field(default_factory=list)

    @property
    def dataset(self) -> str:
        """The data set without what says of which copy: `cifar10` for `cifar10-jpeg`."""
        name = self.task.dataset or ""
        return name.removesuffix("-jpeg")

    @property
    def width(self) -> int | None:
        return self.network.get("width")

    def labelled(self, label: str) -> list[Model]:
        return [model for model in self.models if model.label == label]

    def original_of(self, model: Model) -> Model | None:
        """The Original that it was made from, or that of its seed."""
        originals = self.labelled("Original")
        if model.label == "Original":
            return model
        own = [each for each in originals if each.weights is not None and each.weights == model.made_from]
        same = [each for each in originals if each.seed == model.seed]
        return next(iter(own or same or (originals if len(originals) == 1 else [])), None)

    def references_of(self, model: Model, label: str = "Retrain") -> list[Model]:
        """The models of this label with the same Original's seed; all of them where none has it.

        For Retrain these are all the retrained models, `Retrain 2` and so on after the first, whatever their files are called.
        """
        if label == "Retrain":
            own = [each for each in self.models if role_of(each.label) == "reference"]
            own.sort(key=lambda each: (len(each.label), each.label))
        else:
            own = self.labelled(label)
        original = self.original_of(model)
        seed = model.seed if original is None else original.seed
        return [each for each in own if each.seed == seed] or own

    @property
    def seeds(self) -> list[int]:
        """Records of the Originals."""
        return sorted({each.seed for each in self.labelled("Original")})


@dataclass(eq=False)
class RecordIndex:
    """Everything that a folder of records holds."""

    folder: Path
    groups: list[Group]
    attacks: list[Record]  # U-LiRA's, which have no task
    paths: dict[str, Record] = field(default_factory=dict)  # below the folder

    def commands(self) -> dict[str, list[str]]:
        """The commands that made the records of each folder."""
        found: dict[str, list[str]] = {}
        for path, record in self.paths.items():
            name = str(Path(path).parent)
            if record.command not in found.setdefault(name, []):
                found[name].append(record.command)
        return found


def open_records(folder: str | Path) -> RecordIndex:
    """Read every record below a folder. What is no record is passed over; a damaged record is refused by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; give --records, a folder of records such as records/ of a checkout"
        )
    paths = dict(_records(folder))
    index = indexed(list(paths.values()), folder)
    index.paths = {str(path.relative_to(folder)): record for path, record in paths.items()}
    return index


def indexed(records: Sequence[Record], folder: Path = Path()) -> RecordIndex:
    """Records in groups of models that can be compared, later versions and larger groups first."""
    index = RecordIndex(folder, [], [])
    groups: dict[str, Group] = {}
    for record in records:
        if record.setting.task is None:
            index.attacks += [record] if "U-LiRA" in record.readings else []
            continue
        network = record.setting.network or {}
        version = record.software.get("residua", "")
        key = json.dumps([record.setting.task.sha256, network, record.setting.scale, version], sort_keys=True)
        group = groups.setdefault(key, Group(record.setting.task, network, record.setting.scale, version))
        _place(group, record)
    for group in groups.values():
        # By the names of files, FT-draw-1 would be before FT.
        group.models.sort(key=lambda model: (model.seed, model.draw))
    index.groups = sorted(groups.values(), key=_first, reverse=True)
    return index


def _first(group: Group) -> tuple[Any, ...]:
    """Later versions first, then those with more models; the rest only makes the order the same everywhere."""
    numbers = [int(part) if part.isdigit() else 0 for part in group.version.split(".")[:3]]
    return (numbers, len(group.models), group.task.dataset or "", str(group.task.sha256))


def _place(group: Group, record: Record) -> None:
    """With the model that it is of: the same label and the same weights, or else the same seeds."""
    label = canonical(record.method.label)
    seed, draw = record.seeds.get("training", 0), record.seeds.get("draw", 0)
    for model in group.models:
        if model.label == label and _same(model, record, (model.seed, model.draw) == (seed, draw)):
            model.records.append(record)
            if "training" in record.seeds:
                model.seed, model.draw = seed, draw
            return
    group.models.append(Model(label, seed, draw, [record]))


def _same(model: Model, record: Record, seeds: bool) -> bool:
    """Weights decide where both are known."""
    known = model.weights is not None and record.method.weights is not None
    return model.weights == record.method.weights if known else seeds


def _records(folder: Path) -> Iterator[tuple[Path, Record]]:
    for path in sorted(folder.rglob("[!.]*.json"), key=str):
        try:
            body = json.loads(read_text(path, "a record"))
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and body.keys() >= SIGNS:
            yield path, Record.read(path)


def best_first(groups: Sequence[Group], scales: Sequence[str]) -> list[Group]:
    """The groups of these scales, in their order."""
    return [group for scale in scales for group in groups if group.scale == scale]
