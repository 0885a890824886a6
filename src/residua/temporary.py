"""Temporary folders that do not outlive their makers for long: the next run removes those of runs that were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from residua.texts import slug

try:
    import fcntl
except ImportError:  # no such locks on Windows: there a folder is removed by its maker or not at all
    fcntl = None  # type: ignore[assignment]

PREFIX = "residua-"
LOCK = ".in-use"


@contextlib.contextmanager
def temporary_folder(beside: Path | None = None) -> Iterator[Path]:
    """A folder that is gone afterwards. While this process lives it holds a lock, which dies with it.

    It is in the place for temporary files or, where workers on other machines must see it, in the folder `beside`.
    """
    remove_abandoned(beside)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(beside), dir=beside))
    with (folder / LOCK).open("wb") as held:
        _locked(held)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(beside: Path | None) -> str:
    """In a place that machines share, whose folder it is: not every file system shows locks to other machines."""
    return PREFIX if beside is None else f".{PREFIX}{slug(socket.gethostname())}-"


def remove_abandoned(beside: Path | None = None) -> None:
    """Remove the folders of processes of this machine that were killed."""
    if fcntl is None:
        return
    for folder in Path(beside or tempfile.gettempdir()).glob(f"{_prefix(beside)}*"):
        with contextlib.suppress(OSError):
            if _ours(folder) and not _in_use(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _ours(folder: Path) -> bool:
    """A real folder of this user's: anybody may put links into the place for temporary files."""
    about = folder.lstat()
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()


def _in_use(folder: Path) -> bool:
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        # Made a moment ago, and about to be locked; or never locked, and then soon old.
        return folder.stat().st_mtime > _now(folder) - 60
    with os.fdopen(handle, "rb") as lock:
        return not _locked(lock)


def _now(folder: Path) -> float:
    """The time by the clock of the file system that the folder is on."""
    with tempfile.TemporaryFile(dir=folder.parent) as file:
        return os.fstat(file.fileno()).st_mtime


def _locked(file: IO[bytes]) -> bool:
    """Whether this process could take the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
