"""Store: the finished cells of studies, found by the content of what they depend on.

    cells/KEY.json          one finished cell: what it depended on, what came out, its own hash
    arrays/HASH.npz         arrays of a cell, named by their content
    models/HASH.safetensors weights, named by their content
    damaged/                what did not match its hash, set aside
    claims/                 who computes what at this moment (`claims.py`)

Files never change: they are written whole, renamed into place, and replaced by nothing but themselves. Nothing in a
store depends on where it is, so a copy is as good.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from residua.errors import InputError
from residua.files import write_atomically
from residua.models.checkpoint import read_checkpoint, save
from residua.models.classifier import Classifier, weights_digest
from residua.npz import read_npz
from residua.record import software

Tell = Callable[[str], None]


class Result(BaseModel):
    """A finished cell. `inputs` are what its key is made of, `values` what came out, as plain JSON values.

    Where `values` has `weights` and `kept` is true, the model is in the store; `arrays` is the hash of arrays.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    key: str = Field(pattern=r"^[0-9a-f]{32}$")
    kind: str
    name: str
    inputs: dict[str, Any]
    values: dict[str, Any]
    arrays: str | None = None
    seconds: float
    command: str = ""
    made: float = Field(default_factory=time.time)
    software: dict[str, str] = Field(default_factory=software)

    @property
    def model(self) -> str | None:
        """The hash of the weights that this cell keeps in the store."""
        return self.values["weights"] if self.values.get("kept") else None


class LostModel(InputError):
    """A model of the store is missing or damaged: the cell that makes it has to run again."""

    def __init__(self, weights: str) -> None:
        super().__init__(f"the model {weights[:12]} of the store is missing or damaged; run the study again")
        self.weights = weights

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.weights,)


class StoreFault(InputError):
    """The store cannot be written: going on would lose work."""


def key_of(kind: str, inputs: Mapping[str, Any]) -> str:
    """The name of a cell: a hash of all that it depends on."""
    return _hash({"kind": kind, "inputs": inputs})[:32]


class Store:
    def __init__(self, folder: str | Path, tell: Tell = lambda sentence: None) -> None:
        self.folder = Path(folder)
        self.tell = tell

    def get(self, key: str) -> Result | None:
        """The finished cell, if it is here and whole; a damaged one is set aside."""
        path = self._cell(key)
        try:
            if not path.is_file() and path.exists():
                raise ValueError("it is not a regular file")
            body = json.loads(path.read_bytes())
            claimed = body.pop("sha256")
            if claimed != _hash(body):
                raise ValueError("its content does not match its hash")
            result = Result(**body)
            if result.key != key or key_of(result.kind, result.inputs) != key:
                raise ValueError("it is the file of another cell")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, ValidationError, RecursionError) as error:
            self._set_aside(path, str(error).splitlines()[0])
            return None
        except OSError as error:
            raise StoreFault(f"{path} cannot be read ({error.strerror}); check the folder") from error
        if result.arrays is not None and not self._arrays(result.arrays).exists():
            self._set_aside(path, "its arrays are missing")
            return None
        return result

    def put(self, result: Result, arrays: Mapping[str, np.ndarray] | None = None) -> Result:
        """Keep a finished cell with its arrays; it is here once its JSON file is."""
        if arrays:
            result = result.model_copy(update={"arrays": _arrays_hash(arrays)})
            self._write(self._arrays(result.arrays or ""), lambda part: _write_arrays(part, arrays))
        body = json.loads(result.model_dump_json())
        text = json.dumps(body | {"sha256": _hash(body)}, indent=1, ensure_ascii=False) + "\n"
        self._write(self._cell(result.key), lambda part: part.write_text(text, encoding="utf-8"))
        return result

    def arrays(self, result: Result) -> dict[str, np.ndarray]:
        """The arrays of a finished cell; if they are damaged both are set aside, and the cell has to run again."""
        if result.arrays is None:
            return {}
        path = self._arrays(result.arrays)
        try:
            arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"))
            if _arrays_hash(arrays) != result.arrays:
                raise InputError("its content does not match its name")
        except (InputError, OSError) as error:
            self._set_aside(path, str(error))
            self._set_aside(self._cell(result.key), "its arrays are damaged")
            raise InputError(f"the arrays of {result.name} are damaged; run the study again") from error
        return arrays

    def keep_model(self, model: Classifier) -> str:
        """Write a model under the hash of its weights."""
        weights = weights_digest(model)
        path = self._model(weights)
        if not path.exists():
            self._write(path, lambda part: save(model, part))
        return weights

    def partial(self, key: str) -> Path:
        """Where a cell that takes long keeps its state."""
        return self.folder / "partial" / f"{key}.safetensors"

    def has_model(self, weights: str) -> bool:
        return self._model(weights).exists()

    def model(self, weights: str, device: str = "cpu") -> Classifier:
        """The model with these weights, checked against their hash."""
        path = self._model(weights)
        try:
            model = read_checkpoint(path, device=device)
            if weights_digest(model) != weights:
                raise InputError("its weights do not match its name")
        except InputError as error:
            if path.exists():
                self._set_aside(path, str(error))
            raise LostModel(weights) from error
        return model

    def forget(self, key: str) -> None:
        """Take a cell out, because what it made is lost."""
        self._cell(key).unlink(missing_ok=True)

    def results(self) -> Iterator[Result]:
        """Every finished cell that is whole, the oldest first."""
        # A name with a dot before it is what a killed process was writing.
        names = sorted(path.stem for path in (self.folder / "cells").glob("[!.]*.json"))
        every = [self.get(name) for name in names]
        yield from sorted((result for result in every if result is not None), key=lambda result: result.made)

    def check(self) -> list[str]:
        """Every file against its hash: what was set aside, in one sentence each."""
        sentences: list[str] = []
        tell, self.tell = self.tell, sentences.append
        try:
            for result in self.results():
                try:
                    self.arrays(result)
                    if result.model is not None and self.has_model(result.model):
                        self.model(result.model)
                except InputError:
                    continue  # it was set aside, and reported
        finally:
            self.tell = tell
        return sentences

    def _set_aside(self, path: Path, why: str) -> None:
        target = self.folder / "damaged" / path.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        except FileNotFoundError:
            return  # somebody else was quicker
        except OSError as error:
            raise StoreFault(f"{path} is damaged and cannot be set aside ({error.strerror})") from error
        self.tell(
            f"{path} is damaged ({why}); it was moved to {target.parent} and is made again when it is needed"
        )

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        try:
            write_atomically(path, write)
        except InputError as error:
            raise StoreFault(str(error)) from error

    def _cell(self, key: str) -> Path:
        return self.folder / "cells" / f"{key}.json"

    def _arrays(self, name: str) -> Path:
        return self.folder / "arrays" / f"{name}.npz"

    def _model(self, weights: str) -> Path:
        return self.folder / "models" / f"{weights}.safetensors"


def _hash(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _arrays_hash(arrays: Mapping[str, np.ndarray]) -> str:
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:32]


def _write_arrays(part: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
