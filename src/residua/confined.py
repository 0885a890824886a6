"""Children with limits of memory and time, in which other people's images and tables are decoded.

Decoders are written in C, and believe much of what a file says. In a child of its own, a decoder that crashes, hangs or
wants too much memory is a file that is refused. A child is a fork, so that nothing is imported again, and its answers
are bytes that nobody unpickles. Linux alone forks safely beside other threads: elsewhere all of it happens in this process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.errors import InputError, printable
from residua.limits import LIMITS, limit
from residua.parallel import cores
from residua.worker import end_with

FORKS = sys.platform == "linux"
HEADER = struct.Struct("!cQ")
VALUE, REFUSAL, FAULT = b"=", b"!", b"?"
# Bytes for the name of what is decoded at the moment.
NOTE = 1024
_note: mmap.mmap | None = None  # in a child


def beginning(where: str) -> None:
    """Say what is decoded now, for whoever reports a crash, and limit the processor time that it may take."""
    if _note is None:
        return
    import resource

    _note[:] = where.encode(errors="replace")[:NOTE].ljust(NOTE, b"\0")
    allowed = int(time.process_time()) + 1 + max(1, limit("seconds") // 10)
    if allowed != resource.getrlimit(resource.RLIMIT_CPU)[0]:  # each change costs more than asking does
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))


def image_memory() -> int:
    """Bytes that decoding one image may take: three copies of four bytes for each allowed pixel, and some."""
    return (64 << 20) + 12 * limit("pixels")


class Confined:
    """`work`, done in a child that is started with the first request and ends with this object.

    Args:
        work: A function of one request. It may raise InputError, which is raised here.
        where: The file that is read, for refusals.
        memory: Bytes that the child may take beside what it was forked with.
        seconds: The longest time for one request by the clock.
    """

    def __init__(
        self, work: Callable[[Any], bytes], where: object, *, memory: int, seconds: float | None = None
    ) -> None:
        self._work, self.where, self.memory = work, where, memory
        self.seconds = limit("seconds") if seconds is None else seconds
        self._child = 0

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Any = None) -> bytes:
        """The answer to one request."""
        if not FORKS:
            return self._work(request)
        if not self._child:
            self._start()
        end = time.monotonic() + self.seconds
        message = pickle.dumps(request)  # for a fork of this process
        try:
            os.write(self._requests, HEADER.pack(VALUE, len(message)))
            _write(self._requests, message)
            kind, size = HEADER.unpack(self._read(HEADER.size, end))
            answer = self._read(size, end)
        except (EOFError, BrokenPipeError) as error:
            raise self._crash() from error
        except TimeoutError as error:
            self.close()
            raise self._too_slow() from error
        if kind == VALUE:
            return answer
        self.close()
        if kind == REFUSAL:
            raise InputError(answer.decode(errors="replace"))
        raise RuntimeError(answer.decode(errors="replace"))

    def close(self) -> None:
        """End the child, whatever it does."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        child, self._child = self._child, 0
        _, status = os.waitpid(child, 0)
        for handle in (self._requests, self._answers):
            os.close(handle)
        return os.waitstatus_to_exitcode(status)

    def _read(self, size: int, end: float) -> bytes:
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        found = bytearray()
        while len(found) < size:
            left = end - time.monotonic()
            if left <= 0 or not waiting.poll(1000 * left):
                raise TimeoutError
            chunk = os.read(self._answers, min(1 << 20, size - len(found)))
            if not chunk:
                raise EOFError
            found += chunk
        return bytes(found)

    @property
    def _at(self) -> str:
        """The part of the file that the child was at, or the file."""
        return bytes(self._shown).rstrip(b"\0").decode(errors="replace") or str(self.where)

    def _crash(self) -> InputError:
        code = self._reap()
        if code == -signal.SIGXCPU:
            return self._too_slow()
        name = signal.Signals(-code).name if -code in [*signal.Signals] else f"exit code {code}"
        return InputError(f"{self._at} made its decoder crash ({name}); replace or remove it")

    def _too_slow(self) -> InputError:
        return InputError(
            f"{self._at} takes too long to decode; replace it, or raise {LIMITS['seconds'].variable} in the environment"
        )

    def _start(self) -> None:
        self._shown = mmap.mmap(-1, NOTE)
        theirs, self._requests = os.pipe()
        self._answers, ours = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the fork uses none of the other threads' locks
            self._child = os.fork()
        if self._child == 0:
            with contextlib.suppress(BaseException):
                self._serve(parent, theirs, ours)
            os._exit(1)
        os.close(theirs)
        os.close(ours)

    def _serve(self, parent: int, requests: int, answers: int) -> None:
        """In the child: answer until the requests end."""
        global _note
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with(parent)
        faulthandler.disable()
        gc.disable()  # what belongs to the parent, to a GPU for one, must not be put away here
        low, high = sorted((requests, answers))
        for start, stop in ((3, low), (low + 1, high), (high + 1, 1 << 16)):
            os.closerange(start, stop)
        _note = self._shown
        _limit_memory(self.memory)
        while head := os.read(requests, HEADER.size):
            message = b""
            while len(message) < HEADER.unpack(head)[1]:
                message += os.read(requests, 1 << 20)
            kind, answer = VALUE, b""
            try:
                answer = self._work(pickle.loads(message))
            except InputError as error:
                kind, answer = REFUSAL, str(error).encode(errors="replace")
            except MemoryError:
                kind = REFUSAL
                answer = f"{printable(self._at, 300)} needs more memory than it may take; give a smaller file".encode()
            except Exception:
                kind, answer = FAULT, traceback.format_exc().encode(errors="replace")
            os.write(answers, HEADER.pack(kind, len(answer)))
            _write(answers, answer)


def _write(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view[: 1 << 20]) :]


def _limit_memory(more: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError, IndexError):
        (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if "VmData:" in each)
        most = int(line.split()[1]) * 1024 + more
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def once(work: Callable[[], bytes], where: object, *, memory: int, seconds: float | None = None) -> bytes:
    """The answer of one child."""
    with Confined(lambda _: work(), where, memory=memory, seconds=seconds) as child:
        return child.ask()


def shared(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Zeros that children fill for all to see."""
    size = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)[:size].reshape(shape)


def in_parts(
    work: Callable[[int, int], bytes], where: object, count: int, *, memory: int, seconds: float
) -> Iterator[bytes]:
    """The answers to `work(part, parts)` of as many children as there are cores, if there is enough for each to do."""
    parts = max(1, min(cores(), count // 64)) if FORKS else 1

    def one(part: int) -> bytes:
        return once(lambda: work(part, parts), where, memory=memory, seconds=seconds)

    with ThreadPoolExecutor(parts) as pool:
        yield from list(pool.map(one, range(parts)))
