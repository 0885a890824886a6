"""Files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from residua.errors import InputError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary name beside `path`, then rename it: readers never see a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    finally:
        part.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Say before the work, not after it, that `path` cannot be written."""
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            f"{path} cannot be written ({folder} is no folder to write to); choose another place"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
