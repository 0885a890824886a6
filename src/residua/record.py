"""Record: measured values with everything that they depend on, in typed parts (`Setting`, `MethodFacts`, ...)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from residua.device import chosen_precision
from residua.errors import InputError, first_line, printable
from residua.files import read_bytes, regular_file, write_atomically
from residua.npz import read_npz, write_npz
from residua.readings import Reading
from residua.roles import Role, role_of
from residua.text import from_json


class Facts(pydantic.BaseModel):
    """A part of a record. Unknown fields are refused; what is None is not written."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @pydantic.model_serializer(mode="wrap")
    def _without_none(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if getattr(self, name) is not None}


class SplitFacts(Facts):
    """The size of one split and, where the data are at hand, its classes and hash."""

    n: int
    per_class: list[int] | None = None
    sha256: str | None = None


class TaskFacts(Facts):
    """The forgetting task: `ForgetTask.manifest()`. For saved outputs and features only the sizes are known.

    `mean` and `std` say how images of this `shape` were normalised. `part` is the fraction of the retained and test samples
    that a sequential audit had looked at when it ended.
    """

    splits: dict[str, SplitFacts]
    dataset: str | None = None
    scenario: Literal["class", "random"] | None = None
    forgotten_classes: list[int] | None = None
    classes: int | None = None
    shape: list[int] | None = None
    mean: list[float] | None = None
    std: list[float] | None = None
    duplicates: dict[str, int] | None = None
    sha256: str | None = None
    class_names: list[str] | None = None
    part: float | None = None

    def differs_from(self, other: TaskFacts) -> list[str]:
        """In what two tasks differ, in words; what one of them does not say, as older records do not, is no difference."""
        names = [name for name in (self.splits | other.splits) if self.splits.get(name) != other.splits.get(name)]
        found = [f"the splits {', '.join(names)}"] if names else []
        for name in ("dataset", "scenario", "forgotten_classes", "classes", "shape", "mean", "std"):
            mine, theirs = (_rounded(getattr(each, name)) for each in (self, other))
            if None not in (mine, theirs) and mine != theirs:
                found.append(f"{name.replace('_', ' ')} ({theirs} then, {mine} now)")
        return found

    def size(self, split: str) -> int:
        """Number of examples of this split; 0 if it is absent."""
        return self.splits[split].n if split in self.splits else 0

    def named(self, label: int) -> str:
        """A class as a reader knows it: `class 6, shirt`, or `class 6` where names are not known."""
        names = self.class_names or []
        return f"class {label}, {names[label]}" if 0 <= label < len(names) else f"class {label}"


def _rounded(value: Any) -> Any:
    """Means and deviations of pixels differ between machines in their last digits."""
    if isinstance(value, list):
        return [round(each, 6) if isinstance(each, float) else each for each in value]
    return value


class ShadowFacts(Facts):
    """The shadow models of an attack, or one of them and one forget set."""

    models: int | None = None
    forget_sets: int | None = None
    size: int | None = None
    of_class: int | None = None
    weights: list[str] | None = None
    model: int | None = None
    forget_set: int | None = None
    examples: str | None = None


class Setting(Facts):
    """Data, network and scale. Absent parts are None.

    `network` and `problem` are open: a network is described by the arguments that build it, whoever wrote it, and
    a calibration problem by its own fields.
    """

    scale: str = "custom"
    network: dict[str, Any] | None = None
    task: TaskFacts | None = None
    dataset: str | None = None
    train: str | None = None
    pretraining: dict[str, Any] | None = None
    shadows: ShadowFacts | None = None
    problem: dict[str, Any] | None = None
    device: str | None = None
    precision: str | None = None


class ProxyFacts(Facts):
    """Training of a reference for one audit: the fraction (`share`) of the retained data, and the settings."""

    share: float
    fields: dict[str, Any]


def _one_line(label: str) -> str:
    """Labels stand in tables, pages and on screens, and records may be anybody's."""
    if label != printable(label, 500) or "\n" in label or "\t" in label:
        raise ValueError("a label is one line of printable text with at most 500 characters")
    return label


Label = Annotated[str, pydantic.AfterValidator(_one_line)]


class MethodFacts(Facts):
    """The method that made the model, and the model's identity.

    `fields` are the hyperparameters, open because other people's methods have their own. `weights` and `original`
    are hashes of the model and of the one that it was made from. `saved` has the hashes of outputs and features
    where their owner gave those in place of a model, `file` that of the bytes it was all read from. `init` is the hash of the file that a training started from. `role`
    is the part of the model in a study, where one declared it.
    """

    label: Label
    kind: str | None = None
    fields: dict[str, Any] = {}
    weights: str | None = None
    original: str | None = None
    saved: dict[str, str] = {}
    file: str | None = None
    proxy: ProxyFacts | None = None
    init: str | None = None
    role: Role | None = None


class MeasureFacts(Facts):
    """Settings of the measure behind a reading, or the reason why there is none.

    `fields` are the measure's own settings, `about` is what else two readings must share to be compared, `reading`
    is the kind of reading, `notes` say why single values are missing, `refused` why all are.
    """

    label: Label
    kind: str | None = None
    fields: dict[str, Any] = {}
    about: dict[str, Any] = {}
    reading: str = "reading"
    notes: dict[str, str] = {}
    refused: str | None = None


NAME = r"^[a-z0-9][a-z0-9._-]*$"


class DamagedRecord(InputError):
    """A record on disk is not what was written."""


class Record(pydantic.BaseModel):
    """One result with everything that it depends on.

    `setting` is data, task, network and scale, `method` who made the model, `measures` how each reading was made or
    why a measure refused, `readings` maps measure -> quantity -> value in shares, nats and seconds. Among the `seconds`,
    RTE.load is no time but the load of the machine while RTE was taken. Two records are equal if their contents have the same hash.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    schema_version: Literal[2] = 2
    name: str = pydantic.Field(pattern=NAME)
    setting: Setting
    method: MethodFacts
    measures: dict[str, MeasureFacts] = {}
    seeds: dict[str, int]
    readings: dict[str, dict[str, float]]
    seconds: dict[str, float] = {}
    software: dict[str, str] = pydantic.Field(default_factory=lambda: software())
    command: str = ""
    arrays: dict[str, np.ndarray] = pydantic.Field(default={}, exclude=True, repr=False)

    @property
    def sha256(self) -> str:
        return _hash(self._body())

    @property
    def role(self) -> Role:
        """The part of the model in its study, as declared or by its label."""
        return self.method.role or role_of(self.method.label)

    @property
    def refused(self) -> dict[str, str]:
        """Reasons why measures have no reading here, by their labels."""
        return {label: facts.refused for label, facts in self.measures.items() if facts.refused is not None}

    def read_with(self, label: str) -> Reading:
        """The reading of the measure with this label."""
        if label not in self.readings:
            why = self.refused.get(label, "it was not made")
            raise InputError(f"record {self.name} holds no reading of {label} ({why}); measure it first")
        facts = self.measures.get(label, MeasureFacts(label=label))
        arrays = {
            name.removeprefix(f"{label}."): array for name, array in self.arrays.items() if name.startswith(f"{label}.")
        }
        kind = Reading.kinds.get(facts.reading, Reading)
        return kind(self.readings[label], arrays, about=facts.about, notes=facts.notes)

    def with_reading(self, measure: object, reading: Reading | None, seconds: float, why: str = "") -> Record:
        """This record with one more reading, or with the reason `why` the measure refused."""
        facts = describe(measure)
        label = facts["label"]
        if reading is None:
            facts["refused"] = why
        else:
            facts |= {"about": dict(reading.about), "notes": dict(reading.notes), "reading": reading.kind}
        more: dict[str, Any] = {
            "measures": self.measures | {label: MeasureFacts(**facts)},
            "seconds": self.seconds | {label: seconds},
        }
        if reading is not None:
            more["seconds"] |= {f"{label}.{part}": spent for part, spent in reading.seconds.items()}
            more["readings"] = self.readings | {label: dict(reading.values)}
            more["arrays"] = self.arrays | {f"{label}.{n}": array for n, array in reading.arrays.items()}
        return Record(**{name: getattr(self, name) for name in type(self).model_fields} | more)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.sha256 == other.sha256

    __hash__ = None  # type: ignore[assignment]

    def _body(self) -> dict[str, Any]:
        return self.model_dump(mode="json") | {
            "arrays": {name: _array_hash(array) for name, array in sorted(self.arrays.items())}
        }

    def write(self, folder: str | Path) -> Path:
        """Write `NAME.json` (and `NAME.HASH.npz` for arrays) into `folder`; each is whole or absent."""
        folder = Path(folder)
        body = self._body()
        if "file" in self.arrays:
            raise InputError("an array cannot be recorded under the name file, which NumPy keeps for itself; rename it")
        path = folder / f"{self.name}.json"
        arrays, before = _beside(folder, self.name, body["arrays"]), None
        with contextlib.suppress(InputError, ValueError, KeyError, TypeError, RecursionError):
            # The arrays of the record that is about to be replaced.
            if hashes := from_json(read_bytes(path, "a record", "text"))["arrays"]:
                before = _beside(folder, self.name, hashes)
        if self.arrays:
            write_atomically(arrays, lambda part: write_npz(part, self.arrays))
        text = json.dumps(body | {"sha256": _hash(body)}, indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
        if before and before != arrays:
            before.unlink(missing_ok=True)
        return path

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read a record back; one that is damaged or incomplete is refused by name."""
        path = Path(path)
        try:
            body = from_json(read_bytes(path, "a record", "text"))
            claimed = body.pop("sha256")
            hashes = body.pop("arrays")
            arrays = _read_arrays(_beside(path.parent, path.stem, hashes), hashes) if hashes else {}
            record = cls(**body, arrays=arrays)
        except pydantic.ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise DamagedRecord(
                f"record {path} is damaged: {field or 'it'} {error.errors()[0]['msg']}; make it again"
            ) from error
        except InputError:
            raise
        except Exception as error:  # bytes that are not what was written make any parser stumble
            raise DamagedRecord(f"record {path} is damaged ({first_line(error)}); make it again") from error
        if record.sha256 != claimed:
            raise DamagedRecord(f"record {path} is damaged: its content does not match its hash; make it again")
        return record


def describe(settings: object) -> dict[str, Any]:
    """The label, class and fields of a method or measure, as a record stores them."""
    kind = type(settings).__name__
    return {
        "label": getattr(settings, "label", kind),
        "kind": kind,
        "fields": dataclasses.asdict(settings),  # type: ignore[call-overload]
    }


def software() -> dict[str, str]:
    """Versions, and what of the machine can move the last digits."""
    import torch

    chosen = chosen_precision()
    more: dict[str, str] = {} if chosen == "auto" else {"precision": chosen}
    if torch.cuda.is_initialized():
        more |= {"gpu": torch.cuda.get_device_name(), "float32": "without TF32"}
    return _versions() | {"threads": str(torch.get_num_threads())} | more


@functools.cache
def _versions() -> dict[str, str]:
    import torch

    return {
        "residua": version("residua"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def _hash(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _array_hash(array: np.ndarray) -> str:
    if array.dtype.hasobject:
        raise InputError("an array of Python objects cannot be recorded; give numbers")
    head = f"{array.dtype.str} {array.shape}\n".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _beside(folder: Path, name: str, hashes: dict[str, str]) -> Path:
    """Named by content, so that arrays written for a new record never spoil the old one."""
    return folder / f"{name}.{_hash(hashes)[:12]}.npz"


def _read_arrays(path: Path, hashes: dict[str, str]) -> dict[str, np.ndarray]:
    regular_file(path, "a record's arrays")
    try:
        arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"))
    except InputError as error:
        raise DamagedRecord(f"record {error}") from error
    for name in sorted(hashes.keys() | arrays.keys()):
        if name not in arrays or name not in hashes or _array_hash(arrays[name]) != hashes[name]:
            raise DamagedRecord(f"record {path} is damaged: array {name} is not what was written; make it again")
    return arrays
