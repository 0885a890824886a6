"""Record: what was measured, of what, how, and with which command."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from residua.device import memory_budget
from residua.errors import InputError
from residua.files import write_atomically
from residua.saved import unpacked

NAME = r"^[a-z0-9][a-z0-9._-]*$"


class DamagedRecord(InputError):
    """A record on disk is not what was written."""


class Record(BaseModel):
    """One result with everything that it depends on.

    `setting` is what was asked (data, task, network, scale), `method` and `measures` are the
    fields of the unlearner and of each measure, `readings` maps measure -> quantity -> value in
    shares, nats and seconds. Two records are equal if their contents have the same hash.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    name: str = Field(pattern=NAME)
    setting: dict[str, Any]
    method: dict[str, Any]
    measures: dict[str, dict[str, Any]] = {}
    seeds: dict[str, int]
    readings: dict[str, dict[str, float]]
    seconds: dict[str, float] = {}
    software: dict[str, str] = Field(default_factory=lambda: software())
    command: str = ""
    arrays: dict[str, np.ndarray] = Field(default={}, exclude=True, repr=False)

    @property
    def sha256(self) -> str:
        return _hash(self._body())

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
            body = json.loads(path.read_text(encoding="utf-8"))
            claimed = body.pop("sha256")
            hashes = body.pop("arrays")
            arrays = _read_arrays(_beside(path.parent, path.stem, hashes), hashes) if hashes else {}
            record = cls(**body, arrays=arrays)
        except FileNotFoundError as error:
            raise InputError(f"record {error.filename} does not exist; give the path of a record") from error
        except OSError as error:
            raise InputError(f"record {path} cannot be read ({error.strerror}); check the path") from error
        except ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise DamagedRecord(
                f"record {path} is damaged: {field or 'it'} {error.errors()[0]['msg']}; make it again"
            ) from error
        except DamagedRecord:
            raise
        except Exception as error:  # bytes that are not what was written make any parser stumble
            raise DamagedRecord(f"record {path} is damaged ({error}); make it again") from error
        if record.sha256 != claimed:
            raise DamagedRecord(
                f"record {path} is damaged: its content does not match its hash; make it again"
            )
        return record


def describe(settings: object) -> dict[str, Any]:
    """The label and fields of a method or measure, as a record stores them."""
    label = getattr(settings, "label", type(settings).__name__)
    return {"label": label, "class": type(settings).__name__} | dataclasses.asdict(settings)  # type: ignore[call-overload]


def software() -> dict[str, str]:
    """Versions, and what of the machine can move the last digits."""
    return {
        "residua": version("residua"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": str(torch.get_num_threads()),
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
        hashes = json.loads(path.read_text(encoding="utf-8"))["arrays"]
        return _beside(path.parent, path.stem, hashes) if hashes else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_arrays(path: Path, hashes: dict[str, str]) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        total = sum(unpacked(path, m.filename, archive, m)[0] for m in archive.infolist())
    if total > memory_budget():
        raise DamagedRecord(
            f"record {path} would unpack into {total} bytes, expected at most {memory_budget()}; make it again"
        )
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for name in sorted(hashes.keys() | arrays.keys()):
        if name not in arrays or name not in hashes or _array_hash(arrays[name]) != hashes[name]:
            raise DamagedRecord(
                f"record {path} is damaged: array {name} is not what was written; make it again"
            )
    return arrays
