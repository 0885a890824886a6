"""A worker: one process with one thread that does what its supervisor sends, and ends when the supervisor does.

Messages are pickles behind their length in eight bytes: jobs come in through standard input, results go out through
standard output. `study/executors.py` is the other end. It stands outside the studies so that a worker whose jobs need
no PyTorch starts in a tenth of the time.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import queue
import runpy
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from residua.errors import out_of_memory

HEADER = struct.Struct("!Q")
# What a worker says once it can take jobs, and once all is imported that a job needs.
READY, BEGUN = "ready", "begun"
# Where memory ran out this process is in doubt: it ends, and the job is tried again in another one.
NO_MEMORY = 71


def send(stream: IO[bytes], payload: bytes) -> None:
    stream.write(HEADER.pack(len(payload)) + payload)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None where the other end is gone, even in the middle of one."""
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    payload = stream.read(HEADER.unpack(head)[0])
    return payload if len(payload) == HEADER.unpack(head)[0] else None


def main(parent: int) -> None:
    """Do jobs until standard input ends."""
    end_with(parent)
    faulthandler.enable()  # a crash in compiled code says where, for the supervisor's report
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
    signal.signal(signal.SIGTERM, _stop)
    jobs, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what anybody prints must not end up among the results
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, waiting), daemon=True).start()
    try:
        send(results, pickle.dumps(READY))
        while True:
            send(results, answer(waiting.get(), lambda: send(results, pickle.dumps(BEGUN))))
    except (SystemExit, BrokenPipeError):
        os._exit(128 + signal.SIGTERM)  # past the thread that still listens


def end_with(parent: int) -> None:
    """See to it that this process ends when its parent does, however that ends.

    Linux sends a signal. Elsewhere, and in the moment before this call, the end of standard input says it.
    """
    with contextlib.suppress(OSError, AttributeError):
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if sys.platform != "win32" and os.getppid() != parent:
        os._exit(1)


def _listen(jobs: IO[bytes], waiting: queue.SimpleQueue[bytes]) -> None:
    while (message := receive(jobs)) is not None:
        waiting.put(message)
    os._exit(1)  # at once: what is computed now has nobody to go to


def _stop(*_: object) -> None:
    """Every `finally` runs, so that no file is left half-written."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def answer(message: bytes, begun: Callable[[], None]) -> bytes:
    """The pickled answer to one job: its value, the exception that it raised, and the traceback of that."""
    try:
        call, arguments = _unpickled(message)
        begun()
        return pickle.dumps((call(*arguments), None, ""))
    except MemoryError:
        os._exit(NO_MEMORY)
    except Exception as error:
        if out_of_memory(error):
            os._exit(NO_MEMORY)
        return _pickled_error(error)


def _unpickled(message: bytes) -> Any:
    main_file, needed, payload = pickle.loads(message)
    if needed and main_file:
        _import_main(main_file)
    return pickle.loads(payload)


def _import_main(path: str) -> None:
    """Import the caller's own script, as its classes are pickled under the name of `__main__`.

    The part of the script under `if __name__ == "__main__"` does not run.
    """
    main = sys.modules["__main__"]
    if getattr(main, "residua_main", None) != path:
        namespace = runpy.run_path(path, run_name="__mp_main__")
        vars(main).update({name: value for name, value in namespace.items() if not name.startswith("__")})
        main.residua_main = path  # type: ignore[attr-defined]


def main_file() -> str | None:
    """The script that this process runs, if it is a file of the user's."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(path).absolute()) if path and Path(path).suffix == ".py" else None


def _pickled_error(error: Exception) -> bytes:
    text = traceback.format_exc()
    try:
        payload = pickle.dumps((None, error, text))
        pickle.loads(payload)  # an exception with arguments of its own may not survive the way back
        return payload
    except Exception:
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), text))
