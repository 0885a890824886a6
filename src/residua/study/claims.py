"""Claims: who computes which cell at this moment, so that several processes on one store do not do it twice.

A claim is a file that its owner touches every few seconds. One that was not touched for a while belongs to a process
that is dead, and may be taken. Two may take it in the same moment: then a cell is computed twice, and both write the
same file, which costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from residua.errors import InputError
from residua.files import read_text

BEAT = 5.0
# A claim that is older belongs to nobody. Clocks of machines that share a disk may differ by some seconds.
EXPIRED = 60.0


class Claims:
    """The claims of this process; a thread keeps them alive until they are released."""

    def __init__(self, folder: Path, beat: float = BEAT, expired: float = EXPIRED) -> None:
        self.folder, self.beat, self.expired = folder / "claims", beat, expired
        self._held: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)

    def __enter__(self) -> Claims:
        with contextlib.suppress(OSError):  # a store that cannot be written says so when it is written
            self.folder.mkdir(parents=True, exist_ok=True)
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
        """Whether the cell is ours now."""
        path = self._path(key)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if not self._is_dead(path):
                return False
            with contextlib.suppress(OSError):
                path.write_text(self._name(), encoding="utf-8")
        except OSError:
            return True  # without a place for claims there is nobody to share with
        else:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self._name())
        self._held.add(key)
        return True

    def release(self, key: str) -> None:
        self._held.discard(key)
        self._path(key).unlink(missing_ok=True)

    def owners(self) -> list[str]:
        """The processes that hold claims and are alive, as machine and number."""
        names = set()
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            with contextlib.suppress(InputError):  # it was released just now
                names |= set() if self._is_dead(path) else {read_text(path)}
        return sorted(names)

    def _is_dead(self, path: Path) -> bool:
        try:
            if time.time() - path.stat().st_mtime > self.expired:
                return True
            machine, _, process = read_text(path).rpartition(" ")
        except (OSError, InputError):
            return False  # it was released just now
        return machine == socket.gethostname() and process.isdigit() and not _alive(int(process))

    def _keep_alive(self) -> None:
        while not self._stop.wait(self.beat):
            for key in list(self._held):
                with contextlib.suppress(OSError):
                    os.utime(self._path(key))

    def _path(self, key: str) -> Path:
        return self.folder / key

    @staticmethod
    def _name() -> str:
        return f"{socket.gethostname()} {os.getpid()}"


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
