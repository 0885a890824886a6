"""Store: the finished cells of studies, found by a hash of their inputs.

    cells/KEY.json          one finished cell: its inputs, its values, its own hash
    arrays/HASH.npz         arrays of a cell, named by their content
    models/HASH.safetensors weights, named by their content
    damaged/                files that did not match their hash, set aside
    claims/                 cells that are computed at this moment (`Claims`)

Files never change: they are written whole, renamed into place, and replaced by nothing but themselves. Nothing in a
store depends on where it is, so a copy is as good.

A store may come from somebody else. Its names are hexadecimal digits of a fixed number wherever they are read, `file_of`
makes every path, no link is followed, and files are set aside only by a store that was opened to be repaired.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from residua.errors import InputError
from residua.files import open_regular, read_bytes, write_atomically
from residua.limits import check
from residua.models.checkpoint import Checkpoint, save
from residua.models.classifier import Classifier, weights_digest
from residua.npz import read_npz, write_npz
from residua.record import software
from residua.study.executors import Tell, silent
from residua.text import from_json
from residua.training.keeping import read_state

# The folders of a store: hexadecimal digits of the names in them, and the ending.
PARTS = {
    "cells": (32, ".json"),
    "arrays": (32, ".npz"),
    "models": (64, ".safetensors"),
    "partial": (32, ".safetensors"),
    "claims": (32, ""),
}
DAMAGED, RECORDS = "damaged", "records"


class StoreFault(InputError):
    """The store cannot be used: going on would lose work, or touch what is not in the store."""


def own_folder(out: Path, name: str) -> Path:
    """The folder of this name in the store, or the place for it; a link would lead out of the store."""
    path = out / name
    if path.is_symlink():
        raise StoreFault(
            f"{path} is a link, expected a folder of the store itself; put the folder there, or choose another place"
        )
    return path


def own_file(path: Path) -> Path:
    """This file beside the store's folders, or the place for it; a link would show what is not in the store."""
    if path.is_symlink():
        raise StoreFault(f"{path} is a link, expected a file of the study itself; put the file there")
    return path


def is_name(part: str, name: object) -> bool:
    """True if this can be the name of a file in this folder of a store."""
    return isinstance(name, str) and re.fullmatch(f"[0-9a-f]{{{PARTS[part][0]}}}", name) is not None


def file_of(out: Path, part: str, name: str) -> Path:
    """The path of a file of the store; every path in it is made here."""
    if not is_name(part, name):
        digits = PARTS[part][0]
        raise StoreFault(
            f"{name!r} is not a name in {out / part}, expected {digits} hexadecimal digits; run the study again"
        )
    return own_folder(out, part) / f"{name}{PARTS[part][1]}"


def _is_regular(path: Path) -> bool:
    """True if it is there and neither a link nor anything else that is not a file."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


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
    arrays: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    seconds: float = Field(ge=0, allow_inf_nan=False)
    command: str = ""
    made: float = Field(default_factory=time.time, allow_inf_nan=False)
    software: dict[str, str] = Field(default_factory=software)

    @model_validator(mode="after")
    def _weights_are_a_hash(self) -> Result:
        if (self.values.get("kept") or "weights" in self.values) and not is_name("models", self.values.get("weights")):
            raise ValueError("its weights are not named by a hash")
        return self

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


class LostArrays(InputError):
    """The arrays of a cell are missing or damaged: it has to run again."""


def key_of(kind: str, inputs: Mapping[str, Any]) -> str:
    """The key of a cell: a hash of its kind and inputs."""
    return hash_of({"kind": kind, "inputs": inputs})[:32]


class Store:
    """The store in `folder`. What is damaged is reported, and set aside only if the store `repairs`."""

    def __init__(self, folder: str | Path, tell: Tell = silent, *, repairs: bool = False) -> None:
        self.folder = Path(folder)
        self.tell = tell
        self.repairs = repairs

    def get(self, key: str) -> Result | None:
        """The finished cell, if it is here and whole."""
        path = file_of(self.folder, "cells", key)
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise ValueError("it is not a regular file")
            body = from_json(read_bytes(path, "a cell", "text"))
            claimed = body.pop("sha256")
            if claimed != hash_of(body):
                raise ValueError("its content does not match its hash")
            result = Result(**body)
            if result.key != key or key_of(result.kind, result.inputs) != key:
                raise ValueError("it is the file of another cell")
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, ValidationError, RecursionError) as error:
            self.set_aside(path, str(error).splitlines()[0])
            return None
        except OSError as error:
            raise StoreFault(f"{path} cannot be read ({error.strerror}); check the folder") from error
        if result.arrays is not None and not _is_regular(file_of(self.folder, "arrays", result.arrays)):
            self.set_aside(path, "its arrays are missing")
            return None
        return result

    def put(self, result: Result, arrays: Mapping[str, np.ndarray] | None = None) -> Result:
        """Keep a finished cell with its arrays; it is here once its JSON file is."""
        if arrays:
            result = result.model_copy(update={"arrays": _arrays_hash(arrays)})
            path = file_of(self.folder, "arrays", result.arrays or "")
            self._write(path, lambda part: write_npz(part, arrays))
        body = json.loads(result.model_dump_json())
        text = json.dumps(body | {"sha256": hash_of(body)}, indent=1, ensure_ascii=False) + "\n"
        check(f"the cell {result.name}", "text", len(text.encode()))
        path = file_of(self.folder, "cells", result.key)
        self._write(path, lambda part: part.write_text(text, encoding="utf-8"))
        return result

    def arrays(self, result: Result) -> dict[str, np.ndarray]:
        """The arrays of a finished cell; if they are damaged, both are, and the cell has to run again."""
        if result.arrays is None:
            return {}
        try:
            return self._arrays(result.arrays)
        except (InputError, OSError) as error:
            self.set_aside(file_of(self.folder, "arrays", result.arrays), str(error))
            self.set_aside(file_of(self.folder, "cells", result.key), "its arrays are damaged")
            raise LostArrays(f"the arrays of {result.name} are damaged; run the study again") from error

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        path = file_of(self.folder, "arrays", name)
        if not _is_regular(path):
            raise InputError("it is not a regular file")
        arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"))
        if _arrays_hash(arrays) != name:
            raise InputError("its content does not match its name")
        return arrays

    def keep_model(self, model: Classifier) -> str:
        """Write a model under the hash of its weights."""
        weights = weights_digest(model)
        path = file_of(self.folder, "models", weights)
        if not _is_regular(path):
            self._write(path, lambda part: save(model, part))
        return weights

    def partial(self, key: str) -> Path:
        """File in which a long cell keeps its state, and beside which its further phases do."""
        path = file_of(self.folder, "partial", key)
        for phase in path.parent.glob(f"{key}*"):
            if not _is_regular(phase):
                self.set_aside(phase, "it is not a regular file")
        return path

    def model(self, weights: str, device: str = "cpu") -> Classifier:
        """The model with these weights, checked against their hash."""
        path = file_of(self.folder, "models", weights)
        try:
            if not _is_regular(path):
                raise InputError("it is not a regular file")
            model = Checkpoint(path).classifier(device=device)
            if weights_digest(model) != weights:
                raise InputError("its weights do not match its name")
        except InputError as error:
            self.set_aside(path, str(error))
            raise LostModel(weights) from error
        return model

    def forget(self, key: str) -> None:
        """Take a cell out, because what it made is lost."""
        file_of(self.folder, "cells", key).unlink(missing_ok=True)

    def results(self) -> Iterator[Result]:
        """Every finished cell that is whole, the oldest first."""
        # A name with a dot before it is what a killed process was writing.
        paths = sorted(own_folder(self.folder, "cells").glob("[!.]*.json"))
        for path in paths:
            if not is_name("cells", path.stem):
                self.set_aside(path, "its name is not the key of a cell")
        names = [path.stem for path in paths if is_name("cells", path.stem)]
        whole = [result for name in names if (result := self.get(name)) is not None]
        yield from sorted(whole, key=lambda result: result.made)

    def check(self) -> list[str]:
        """Every file against its hash: what is damaged, in one sentence each."""
        sentences: list[str] = []
        tell, self.tell = self.tell, sentences.append
        try:
            for result in self.results():
                if result.arrays is not None:
                    with contextlib.suppress(LostArrays):
                        self.arrays(result)
            self._check_rest()
        finally:
            self.tell = tell
        return list(dict.fromkeys(sentences))

    def _check_rest(self) -> None:
        """Models, states of trainings, and arrays that no cell names: those of old settings."""
        readers: dict[str, Callable[[Path], object]] = {
            "arrays": lambda path: self._arrays(path.stem),
            "models": lambda path: self.model(path.stem),
            "partial": read_state,
        }
        for part, read in readers.items():
            for path in sorted(own_folder(self.folder, part).glob("[!.]*")):
                try:
                    if not is_name(part, path.name.partition(".")[0]) or not _is_regular(path):
                        raise InputError("it is not a file of a store")
                    read(path)
                except LostModel:
                    continue  # it was reported
                except InputError as error:
                    self.set_aside(path, str(error))

    def set_aside(self, path: Path, why: str) -> None:
        """Report a damaged file, and move it to `damaged/` if this store repairs."""
        if not os.path.lexists(path):
            return  # there is nothing, or somebody else was quicker
        if not self.repairs:
            self.tell(f"{path} is damaged ({why}); `residua study check --repair` sets it aside")
            return
        target = own_folder(self.folder, DAMAGED) / path.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        except FileNotFoundError:
            return  # somebody else was quicker
        except OSError as error:
            raise StoreFault(f"{path} is damaged and cannot be set aside ({error.strerror})") from error
        self.tell(f"{path} is damaged ({why}); it was moved to {target.parent} and is made again when it is needed")

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        try:
            write_atomically(path, write)
        except InputError as error:
            raise StoreFault(str(error)) from error


def hash_of(body: Any) -> str:
    """The hash of plain values, whatever the order of their names."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _arrays_hash(arrays: Mapping[str, np.ndarray]) -> str:
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:32]


BEAT = 5.0
# A claim that is older belongs to nobody. Clocks of machines that share a disk may differ by some seconds.
EXPIRED = 60.0


class Claims:
    """The cells that this process computes, so that several processes on one store do not compute one twice.

    A claim is a file that its owner touches every few seconds. One that was not touched for a while, or that is dated in
    the future, belongs to a process that is dead, and may be taken; so may what is no file. Two may take it in the same
    moment: then a cell is computed twice, and both write the same file, which costs time and nothing else.
    """

    def __init__(self, folder: Path, beat: float = BEAT, expired: float = EXPIRED) -> None:
        self.out, self.beat, self.expired = folder, beat, expired
        self._held: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)

    def __enter__(self) -> Claims:
        folder = own_folder(self.out, "claims")
        with contextlib.suppress(OSError):  # a store that cannot be written says so when it is written
            folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for key in list(self._held):
            self.release(key)

    def take(self, key: str) -> bool:
        """True if the cell is ours now."""
        path = file_of(self.out, "claims", key)
        try:
            if self._is_dead(path):
                path.unlink(missing_ok=True)  # never written to: it may be a link
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        except OSError:
            return True  # without a place for claims there is nobody to share with
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{socket.gethostname()} {os.getpid()}")
        self._held.add(key)
        return True

    def release(self, key: str) -> None:
        if key in self._held:
            self._held.discard(key)
            file_of(self.out, "claims", key).unlink(missing_ok=True)

    def owner(self, key: str) -> str:
        """The process that holds the claim, as machine and number; empty if it was released just now."""
        return _owner(file_of(self.out, "claims", key))

    def owners(self) -> list[str]:
        """The processes that hold claims and are alive."""
        folder = own_folder(self.out, "claims")
        paths = [path for path in folder.iterdir() if is_name("claims", path.name)] if folder.is_dir() else []
        return sorted({_owner(path) for path in paths if not self._is_dead(path)} - {""})

    def _is_dead(self, path: Path) -> bool:
        try:
            about = path.lstat()
        except OSError:
            return False  # it was released just now
        if not stat.S_ISREG(about.st_mode) or abs(time.time() - about.st_mtime) > self.expired:
            return True
        machine, _, process = _owner(path).rpartition(" ")
        known = machine == socket.gethostname() and re.fullmatch("[0-9]{1,9}", process)
        return bool(known) and not _alive(int(process))

    def _keep_alive(self) -> None:
        while not self._stop.wait(self.beat):
            for key in list(self._held):
                with contextlib.suppress(OSError):
                    os.utime(file_of(self.out, "claims", key), follow_symlinks=False)


def _owner(path: Path) -> str:
    """The first words of a claim: others may have written to it."""
    if not _is_regular(path):
        return ""
    try:
        with open_regular(path) as file:
            return " ".join(file.read(200).decode("utf-8", "replace").split())
    except InputError:
        return ""  # it was released just now


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
