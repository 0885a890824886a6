"""Files and temporary directories: written whole or not at all, read only if regular and small enough for memory.

Temporary directories are cleaned up by the next run if a process was killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from residua.errors import InputError
from residua.limits import check
from residua.text import slug


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary name beside `path`, then rename it: readers never see a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not by `mkstemp`, which gives the owner alone the right to read: the mode is what the umask makes of 666.
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o666))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    try:
        write(part)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    finally:
        part.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Report before the work, not after it, that `path` cannot be written."""
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        if path.is_dir():
            raise IsADirectoryError
        with tempfile.TemporaryFile(dir=folder):  # permissions alone say nothing of /proc, or of a full disk
            return
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({folder} is not a writable folder); choose another place"
        ) from error


def regular_file(path: str | Path, what: str = "a file") -> Path:
    """`path`, which must be a regular file or a link to one: a pipe or a device could be read for ever."""
    open_regular(path, what).close()
    return Path(path)


def open_regular(path: str | Path, what: str = "a file") -> BinaryIO:
    """A regular file, opened to be read. Nothing is waited for, and what was opened is what is looked at."""
    path = Path(path)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give the path of {what}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}); give the path of {what}") from error
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path} is a folder; give the path of {what}")
        if not stat.S_ISREG(mode):
            kinds = "a pipe, a socket or a device"
            raise InputError(f"{path} is {kinds}, expected a regular file; give the path of {what}")
    except InputError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_bytes(path: str | Path, what: str = "a file", limit: str = "memory") -> bytes:
    """All bytes of a regular file that is not larger than the limit."""
    with open_regular(path, what) as file, reading(path):
        size = os.fstat(file.fileno()).st_size
        check(path, limit, size)
        # No more than was asked for, should the file grow meanwhile.
        return file.read(size)


def read_text(path: str | Path, what: str = "a text file") -> str:
    """All of a regular text file in UTF-8 that is not larger than the limit."""
    raw = read_bytes(path, what, "text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; give the path of {what}") from error


def file_hash(path: str | Path, what: str = "a file") -> str:
    """SHA-256 of the bytes of a regular file, which need not fit into memory."""
    sha = hashlib.sha256()
    with open_regular(path, what) as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


@contextlib.contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn memory errors in the body into an `InputError` about this file."""
    try:
        yield
    except MemoryError as error:
        raise InputError(f"{path} needs more memory than there is; give a smaller file") from error
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise InputError(f"{path} needs more memory than there is; give a smaller file") from error


try:
    import fcntl
except ImportError:  # no such locks on Windows: there a folder is removed by its maker or not at all
    fcntl = None  # type: ignore[assignment]

PREFIX = "residua-"
LOCK = ".in-use"


@contextlib.contextmanager
def temporary_folder(beside: Path | None = None) -> Iterator[Path]:
    """A directory that is removed at the end of the body. This process holds a lock on it, which ends with the process.

    It is in the system's directory for temporary files or, where workers on other machines must see it, in `beside`.
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
    """In a shared directory it names the machine: not every file system shows locks to other machines."""
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
    """Try to take the lock; True if this process has it now."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
