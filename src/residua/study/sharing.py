"""Shared: a large object, such as a data set, that crosses to worker processes once and not with every job."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from residua.errors import InputError
from residua.temporary import temporary_folder

Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A handle. In this process it holds the object; pickled, it is the path and the hash of a file.

    The file is written when the handle is first pickled, into a folder that every worker can see.
    """

    def __init__(self, value: Value, folder: Path) -> None:
        self._value: Value | None = value
        self._folder = folder
        self._file: tuple[str, str] | None = None

    def get(self) -> Value:
        if self._value is None:
            self._value = _opened(*self._file)  # type: ignore[misc]
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        if self._file is None:
            content = pickle.dumps(self._value, protocol=pickle.HIGHEST_PROTOCOL)
            path = self._folder / "shared.pickle"
            path.write_bytes(content)
            self._file = (str(path), hashlib.sha256(content).hexdigest())
        return {"_value": None, "_folder": self._folder, "_file": self._file}


@contextlib.contextmanager
def shared(value: Value, beside: Path | None = None) -> Iterator[Shared[Value]]:
    """A handle whose file is gone afterwards. `beside` is a folder that exists where workers are on other machines."""
    with temporary_folder(beside) as folder:
        yield Shared(value, folder)


@functools.lru_cache(maxsize=2)
def _opened(path: str, sha256: str) -> Any:
    content = Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} was changed while the study ran; run it again")
    return pickle.loads(content)
