"""Side by side: one process a core, one thread each, and none outlives the command.

With one thread each, the numbers do not depend on how many cores there are.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import Any

import torch


class Here(Executor):
    """Runs what is submitted at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextlib.contextmanager
def side_by_side(jobs: int) -> Iterator[Executor]:
    """So many processes of one thread each; one job runs in this process, with all of its threads."""
    if jobs == 1:
        yield Here()
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        try:
            yield pool
        except BaseException:
            # Nobody waits for what they are at; left alone, they would outlive this process.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.terminate()
            raise


def _one_thread() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, _stop)


class _Stopped(SystemExit):
    """Ends a worker once every `finally` of its job has run: the pool catches it and pickles it to send it.

    Any other exception would be sent, and the worker would begin the next job in the queue.
    """

    def __reduce__(self) -> Any:
        os._exit(128 + signal.SIGTERM)


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the pool says it again when the first worker has ended
    raise _Stopped
