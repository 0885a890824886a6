"""Checks of inputs that loaders share, and their refusals."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from residua.errors import InputError
from residua.files import read_bytes

Location = str | os.PathLike[str]


# Advice for users without images.
ELSEWHERE = "Models of tables, text or sound are audited by features that they saved (docs/saved.md)"


def folder(location: Location) -> Path:
    """The folder at `location`, which must be there."""
    path = Path(location)
    if path.is_dir():
        return path
    raise InputError(
        f"{path} is {'a file' if path.exists() else 'not there'}, expected a folder; "
        "give the folder that holds the data"
    )


def content(path: Path) -> bytes:
    """All bytes of a regular file within the limit of memory."""
    return read_bytes(path, "a readable file")


def unknown(what: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a table, with the nearest name that is."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}" if near else "choose one"
    return InputError(f"there is no {what} {name!r}, only {', '.join(names)}; {hint}")


def need(module: str) -> Any:
    """An optional module, or a sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"reading these images needs {module.partition('.')[0]}, which is missing; install residua[data]"
        ) from error
