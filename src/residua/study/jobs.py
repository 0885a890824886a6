"""Jobs: calls with a name, what becomes of them, and whoever does them; `Here` is this process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from residua.errors import InputError

# What whoever lost a worker can do, at the end of the sentence that says so.
LOST = "run it again with more memory or time, or with fewer --jobs"

Tell = Callable[[str], None]


def silent(sentence: str) -> None:
    """For callers that want no messages."""


class WorkerLost(InputError):
    """A job's worker ended twice before it had an answer: killed, out of memory or out of time, so not our error."""


@dataclass(frozen=True, eq=False)
class Job:
    """A call, and a name for messages. It has to be picklable: functions by their place in a module."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    about: Any = None  # whatever the caller wants to find again in the outcome


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a job: a value, or an error with the worker's traceback."""

    job: Job
    value: Any = None
    error: Exception | None = None
    traceback: str = ""
    seconds: float = 0.0

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Crew(Protocol):
    """Whoever does jobs: this process (`Here`) or several (`Workers`)."""

    @property
    def at_once(self) -> int:
        """How many jobs are done at the same time."""

    @property
    def free(self) -> int:
        """How many more jobs can be given."""

    def give(self, job: Job) -> None: ...

    def wait(self, seconds: float = 1.0) -> list[Outcome]:
        """What has been finished; empty where nothing was within these seconds."""


def all_of(jobs: Iterable[Job], by: Crew) -> Iterator[Outcome]:
    """The outcomes of independent jobs, in the order in which they are finished."""
    waiting, running = iter(jobs), 0
    while True:
        while by.free and (job := next(waiting, None)) is not None:
            by.give(job)
            running += 1
        if not running:
            return
        for outcome in by.wait():
            running -= 1
            yield outcome


class Here:
    """Does jobs in this process, one at a time, with one thread."""

    at_once = 1

    def __init__(self) -> None:
        self._given: list[Job] = []

    @property
    def free(self) -> int:
        return 1 - len(self._given)

    def give(self, job: Job) -> None:
        self._given.append(job)

    def wait(self, seconds: float = 1.0) -> list[Outcome]:
        return [self._do(self._given.pop(0))] if self._given else []

    def _do(self, job: Job) -> Outcome:
        start = time.perf_counter()
        try:
            with one_thread():
                value = job.call(*job.arguments)
        except Exception as error:
            return Outcome(job, error=error)
        return Outcome(job, value, seconds=time.perf_counter() - start)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    import torch  # here: workers that need none start in a tenth of the time

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
