"""Small independent pieces of work, side by side in copies of this process, with one thread each."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# A worker of a study has one core: it must not start further processes.
PROCESSES = "RESIDUA_PROCESSES"


def processes() -> int:
    """How many copies may run at once: the cores that this process may use, or what RESIDUA_PROCESSES says."""
    given = os.environ.get(PROCESSES, "")
    if given.isdigit():
        return max(1, int(given))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # OMP_NUM_THREADS is how a user keeps PyTorch to some of the cores; it holds for copies alike.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, max(1, int(threads))) if threads.isdigit() else cores


def each(
    tasks: Sequence[Callable[[], T]],
    *,
    on: str = "cpu",
    begin: Callable[[range], object] = lambda positions: None,
) -> list[T]:
    """The results of all tasks, in their order, whatever runs at once.

    A task must seed itself, and computes with one thread in any case, so that its result is the same in this
    process and in a copy. Copies are forked: they see all of this process's data without moving them, and only
    results travel. A copy that dies costs nothing but time: its tasks are done here. `begin` hears which
    tasks are begun: one here, and one in each copy at about the same time.
    """
    count = min(processes(), len(tasks))
    if count < 2 or not _can_fork(on):
        with _one_thread():
            return [result for _, result in _in_turn(tasks, range(len(tasks)), 1, begin)]
    return _forked(tasks, count, begin)


def _in_turn(
    tasks: Sequence[Callable[[], T]], positions: Iterable[int], count: int, begin: Callable[[range], object]
) -> Iterator[tuple[int, T]]:
    for position in positions:
        begin(range(position, min(position + count, len(tasks))))
        yield position, tasks[position]()


def _can_fork(on: str) -> bool:
    """Linux alone forks safely beside OpenMP, and nobody beside a GPU's driver."""
    return sys.platform == "linux" and on == "cpu"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _forked(tasks: Sequence[Callable[[], T]], count: int, begin: Callable[[range], object]) -> list[T]:
    """This process and copies of it do the tasks; whoever is free takes the next one."""
    queue = _Queue(len(tasks))
    children = [_start(tasks, queue) for _ in range(1, count)]
    results: dict[int, Any] = {}
    try:
        with _one_thread():
            results.update(_in_turn(tasks, queue, count, begin))
        for pid, pipe in children:
            with os.fdopen(pipe, "rb") as stream, contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    position, result = pickle.load(stream)  # from a copy of this process, and nobody else
                    results[position] = result
            os.waitpid(pid, 0)
    except BaseException:
        for pid, _ in children:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
                os.waitpid(pid, 0)
        raise
    finally:
        queue.close()
    for position, task in enumerate(tasks):
        if position not in results:
            with _one_thread():
                results[position] = task()
    return [results[position] for position in range(len(tasks))]


class _Queue:
    """The numbers 0, 1, ... for several processes, each number once: a pipe that all of them read from."""

    WORD = 4  # bytes of a number; a pipe holds 64 KiB, and what does not fit is left to the end

    def __init__(self, count: int) -> None:
        self.reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError), os.fdopen(writing, "wb", buffering=0) as stream:
            for number in range(count):
                stream.write(number.to_bytes(self.WORD, "little"))

    def __iter__(self) -> Iterator[int]:
        while word := os.read(self.reading, self.WORD):
            yield int.from_bytes(word, "little")

    def close(self) -> None:
        os.close(self.reading)


def _start(tasks: Sequence[Callable[[], Any]], queue: _Queue) -> tuple[int, int]:
    reading, writing = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # OpenMP's threads sleep; a copy never uses them
        pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        os.close(reading)
        _end_with(parent)
        with os.fdopen(writing, "wb") as stream, _one_thread():
            # A pipe holds little and the parent reads late, so all work is done before anything is written.
            for result in list(_in_turn(tasks, queue, 1, lambda positions: None)):
                pickle.dump(result, stream)
    except BaseException:
        # What fails here fails again in the parent, which reports it; a broken pipe means that the parent is gone.
        os._exit(1)
    finally:
        os._exit(0)


def _end_with(parent: int) -> None:
    """Ask Linux to end this copy when its parent ends, however that happens; at once if that was before the question."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        os._exit(1)
