"""Independent tasks in forked processes, one thread each, with the same results for any number of processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from residua.errors import first_line
from residua.text import whole_number
from residua.worker import end_with

T = TypeVar("T")

# A worker of a study has one core: it must not start further processes.
PROCESSES = "RESIDUA_PROCESSES"

# The tasks of the running call; forked processes inherit them, so that only indices and results are sent.
_tasks: Sequence[Callable[[], Any]] = ()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes() -> int:
    """The number of processes that may run at once: RESIDUA_PROCESSES, or the cores that this process may use."""
    given = whole_number(os.environ.get(PROCESSES, ""))
    if given is not None:
        return max(1, given)
    # OMP_NUM_THREADS is how a user keeps PyTorch to some of the cores; it holds for processes alike.
    threads = whole_number(os.environ.get("OMP_NUM_THREADS", ""))
    return cores() if threads is None else min(cores(), max(1, threads))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread in the body, in NumPy's and SciPy's products too."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(before)


def each(
    tasks: Sequence[Callable[[], T]], *, on: str = "cpu", begin: Callable[[range], object] = lambda positions: None
) -> list[T]:
    """The results of all tasks, in their order.

    A task must seed itself, and computes with one thread in any case, so that its result is the same in any process.
    An exception in a task is raised here. If a process is killed, a warning says so and this process does what is left.

    Args:
        tasks: Functions without arguments. Processes are forked, so only results have to be picklable.
        on: Type of the device that the tasks compute on. Linux alone forks safely beside OpenMP, and no system beside
            a GPU's driver: elsewhere the tasks run one after the other in this process.
        begin: Called with the range of tasks that are about to run, for progress.
    """
    count = min(processes(), len(tasks))
    results: dict[int, T] = {}
    if count > 1 and sys.platform == "linux" and on == "cpu":
        try:
            _forked(tasks, count, begin, results)
        except BrokenProcessPool as error:
            left = len(tasks) - len(results)
            warnings.warn(
                f"a process was killed ({first_line(error)}); {left} of {len(tasks)} tasks are done without it",
                RuntimeWarning,
                stacklevel=2,
            )
    with one_thread():
        for position in range(len(tasks)):
            if position not in results:
                begin(range(position, position + 1))
                results[position] = tasks[position]()
    return [results[position] for position in range(len(tasks))]


def _forked(
    tasks: Sequence[Callable[[], T]], count: int, begin: Callable[[range], object], results: dict[int, T]
) -> None:
    """Fill `results`, by position, from `count` forked processes."""
    global _tasks
    context = multiprocessing.get_context("fork")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, context, _prepare, (os.getpid(),))
    _tasks = tasks
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # OpenMP's threads sleep; forks never use them
            futures: dict[Future[bytes], int] = {pool.submit(_run, i): i for i in range(len(tasks))}
        begin(range(count))
        for done, future in enumerate(as_completed(futures), start=1):
            results[futures[future]] = pickle.loads(future.result())  # from a fork of this process
            if done < len(tasks):
                begin(range(done, min(done + count, len(tasks))))
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        _tasks = ()
        pool.shutdown(cancel_futures=True)


def _prepare(parent: int) -> None:
    """In a new process: end with the parent, however that ends, and start no processes of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    os.environ[PROCESSES] = "1"


def _run(position: int) -> bytes:
    """The pickled result: PyTorch would otherwise send tensors as shared memory, which dies with its process."""
    with one_thread():
        return pickle.dumps(_tasks[position]())
