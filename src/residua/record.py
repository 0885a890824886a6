"""Record: what was measured, of what, how, and with which command."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from residua.device import chosen_precision
from residua.errors import InputError, first_line
from residua.facts import MeasureFacts, MethodFacts, Setting, upgraded
from residua.files import read_bytes, regular_file, write_atomically
from residua.npz import read_npz
from residua.readings import Reading

NAME = r"^[a-z0-9][a-z0-9._-]*$"


class DamagedRecord(InputError):
    """A record on disk is not what was written."""


class Record(BaseModel):
    """One result with everything that it depends on.

    `setting` is data, task, network and scale, `method` who made the model, `measures` how each reading was made or
    why a measure refused, `readings` maps measure -> quantity -> value in shares, nats and seconds. Two records are
    equal if their contents have the same hash. Version 1 is read, and keeps the hash under which it was written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    schema_version: Literal[2] = 2
    name: str = Field(pattern=NAME)
    setting: Setting
    method: MethodFacts
    measures: dict[str, MeasureFacts] = {}
    seeds: dict[str, int]
    readings: dict[str, dict[str, float]]
    seconds: dict[str, float] = {}
    software: dict[str, str] = Field(default_factory=lambda: software())
    command: str = ""
    arrays: dict[str, np.ndarray] = Field(default={}, exclude=True, repr=False)
    _written_as: str = PrivateAttr(default="")

    @property
    def sha256(self) -> str:
        return self._written_as or _hash(self._body())

    @property
    def refused(self) -> dict[str, str]:
        """Why measures have no reading here, by their labels."""
        return {label: facts.refused for label, facts in self.measures.items() if facts.refused is not None}

    def read_with(self, label: str) -> Reading:
        """The reading of the measure with this label."""
        if label not in self.readings:
            why = self.refused.get(label, "it was not made")
            raise InputError(f"record {self.name} holds no reading of {label} ({why}); measure it first")
        facts = self.measures.get(label, MeasureFacts(label=label))
        arrays = {
            name.removeprefix(f"{label}."): array
            for name, array in self.arrays.items()
            if name.startswith(f"{label}.")
        }
        kind = Reading.kinds.get(facts.reading, Reading)
        return kind(self.readings[label], arrays, about=facts.about, notes=facts.notes)

    def and_read(self, measure: object, reading: Reading | None, seconds: float, why: str = "") -> Record:
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
        if reading is not None:
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
            raise InputError(
                "an array cannot be recorded under the name file, which NumPy keeps for itself; rename it"
            )
        path = folder / f"{self.name}.json"
        arrays, before = _beside(folder, self.name, body["arrays"]), _arrays_before(path)
        if self.arrays:
            write_atomically(arrays, self._write_arrays)
        text = json.dumps(body | {"sha256": _hash(body)}, indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
        if before and before != arrays:
            before.unlink(missing_ok=True)
        return path

    def _write_arrays(self, part: Path) -> None:
        with part.open("wb") as file:
            np.savez_compressed(file, **self.arrays)  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read a record back; one that is damaged or incomplete is refused by name."""
        path = Path(path)
        try:
            body = json.loads(read_bytes(path, "a record", "text"))
            claimed = body.pop("sha256")
            old = body["schema_version"] == 1
            if old and _hash(body) != claimed:
                raise DamagedRecord(_NOT_ITS_HASH.format(path))
            hashes = body.pop("arrays")
            arrays = _read_arrays(_beside(path.parent, path.stem, hashes), hashes) if hashes else {}
            if old:
                body = upgraded(body, arrays.get("information.blocks", np.array([], int)).tolist())
            record = cls(**body, arrays=arrays)
            record._written_as = claimed if old else ""
        except ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise DamagedRecord(
                f"record {path} is damaged: {field or 'it'} {error.errors()[0]['msg']}; make it again"
            ) from error
        except InputError:
            raise
        except Exception as error:  # bytes that are not what was written make any parser stumble
            raise DamagedRecord(f"record {path} is damaged ({first_line(error)}); make it again") from error
        if record.sha256 != claimed:
            raise DamagedRecord(_NOT_ITS_HASH.format(path))
        return record


_NOT_ITS_HASH = "record {} is damaged: its content does not match its hash; make it again"


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
    more = {} if chosen == "auto" else {"precision": chosen}
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


def _arrays_before(path: Path) -> Path | None:
    """The arrays of the record that is about to be replaced."""
    try:
        hashes = json.loads(read_bytes(path, "a record", "text"))["arrays"]
        return _beside(path.parent, path.stem, hashes) if hashes else None
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_arrays(path: Path, hashes: dict[str, str]) -> dict[str, np.ndarray]:
    regular_file(path, "a record's arrays")
    try:
        arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"))
    except InputError as error:
        raise DamagedRecord(f"record {error}") from error
    for name in sorted(hashes.keys() | arrays.keys()):
        if name not in arrays or name not in hashes or _array_hash(arrays[name]) != hashes[name]:
            raise DamagedRecord(
                f"record {path} is damaged: array {name} is not what was written; make it again"
            )
    return arrays
