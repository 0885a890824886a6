"""Worker processes under a supervisor: one thread each, and a dead one costs no more than what it was doing.

With one thread each, the numbers do not depend on how many run at once, nor on how many cores there are. A worker
that is killed, runs out of memory or takes too long is replaced, and its job tried once more; a second time is an
answer. `concurrent.futures` has none of this: there, one killed process breaks the pool.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from residua.device import child_command
from residua.errors import InputError
from residua.study.jobs import LOST, Crew, Here, Job, Outcome, Tell, WorkerLost, silent
from residua.study.worker import BEGUN, NO_MEMORY, READY, main_file, receive, send

# Seconds that a worker has between the request to stop and being killed.
GRACE = 3.0
# Seconds that a worker may take to import what a job needs, beside the job's own limit.
IMPORTS = 300.0
# What PyTorch, and whatever else computes, takes its number of threads from.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Workers that may end before they were ready, in a row; then something is wrong with all of them.
FALSE_STARTS = 3


@contextlib.contextmanager
def crew(jobs: int, *, limit: float | None = None, tell: Tell = silent, gpus: int = 0) -> Iterator[Crew]:
    """`jobs` workers, or this process where one is enough. A time `limit` needs a process that can be ended.

    With several `gpus`, each worker sees one of them.
    """
    if jobs == 1 and limit is None:
        yield Here()
    else:
        with Workers(jobs, limit=limit, tell=tell, gpus=gpus) as workers:
            yield workers


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    complaints: Any  # its standard error, a file
    slot: int  # the least number that no other worker has
    ready: bool = False
    job: Job | None = None
    since: float = field(default_factory=time.monotonic)
    begun: bool = False  # with its job; before that it imports
    overdue: bool = False


class Workers:
    """Up to `count` worker processes, started when there is something to do.

    `limit` is the most seconds for a job. Only the thread that made this object may call it: on Linux a worker ends
    with the thread that started it.
    """

    def __init__(self, count: int, *, limit: float | None = None, tell: Tell = silent, gpus: int = 0) -> None:
        self.count, self.limit, self.tell, self.gpus = count, limit, tell, gpus
        self._workers: list[_Worker] = []
        self._again: list[Job] = []
        self._tried: set[Job] = set()
        self._messages: queue.SimpleQueue[tuple[_Worker, bytes | None]] = queue.SimpleQueue()
        self._false_starts = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def at_once(self) -> int:
        return self.count

    @property
    def free(self) -> int:
        return self.count - len(self._again) - sum(worker.job is not None for worker in self._workers)

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that are there."""
        return [worker.process.pid for worker in self._workers]

    def give(self, job: Job) -> None:
        message = _packed(job)
        worker = next((worker for worker in self._workers if worker.job is None), None)
        worker = worker or self._start()
        worker.job, worker.since, worker.begun = job, time.monotonic(), False
        # A worker that has just died is noticed by its end of output, and the job then goes to another one.
        with contextlib.suppress(OSError):
            send(worker.process.stdin, message)  # type: ignore[arg-type]

    def wait(self, seconds: float = 1.0) -> list[Outcome]:
        while self._again:
            self.give(self._again.pop())
        outcomes: list[Outcome] = []
        try:
            heard = [self._messages.get(timeout=seconds)]
        except queue.Empty:
            self._end_overdue()
            return outcomes
        while not self._messages.empty():
            heard.append(self._messages.get())
        for worker, message in heard:
            outcome = self._ended(worker) if message is None else self._answered(worker, message)
            outcomes += [outcome] if outcome else []
        self._end_overdue()  # only now: whoever has answered is not late
        return outcomes

    def close(self) -> None:
        """End all workers: they have a moment to put away what they hold, then they are killed."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            worker.process.kill()
            self._bury(worker)
        self._workers.clear()

    def _start(self) -> _Worker:
        code = f"from residua.study.worker import main; main({os.getpid()})"
        slot = next(n for n in range(self.count) if n not in {each.slot for each in self._workers})
        one_gpu = {"CUDA_VISIBLE_DEVICES": str(slot % self.gpus)} if self.gpus > 1 else {}
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        process = subprocess.Popen(
            child_command(code),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | dict.fromkeys(ONE_THREAD, "1") | one_gpu,
        )
        worker = _Worker(process, complaints, slot)
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        with worker.process.stdout as results:  # type: ignore[union-attr]
            while (message := receive(results)) is not None:
                self._messages.put((worker, message))
        self._messages.put((worker, None))

    def _answered(self, worker: _Worker, message: bytes) -> Outcome | None:
        content = pickle.loads(message)
        if content in (READY, BEGUN):
            worker.ready, self._false_starts = True, 0
            worker.begun = content == BEGUN
            worker.since = time.monotonic()  # starting and importing are not counted against the job's limit
            return None
        job, worker.job = worker.job, None
        if job is None:
            return None
        self._tried.discard(job)
        kind, value, more = content
        if kind == "value":
            return Outcome(job, value, seconds=more)
        return Outcome(job, error=value, traceback=more)

    def _ended(self, worker: _Worker) -> Outcome | None:
        """A worker is gone: its job goes to another one, or has failed if that was the second time."""
        if worker not in self._workers:
            return None
        self._workers.remove(worker)
        code = worker.process.wait()
        reason = self._reason(worker, code)
        self._bury(worker)
        if not worker.ready:
            self._false_starts += 1
            if self._false_starts >= FALSE_STARTS:
                raise InputError(f"no worker process can be started here ({reason}); use --jobs 1")
        job = worker.job
        if job is None:
            return None
        if job in self._tried:
            self._tried.discard(job)
            return Outcome(job, error=WorkerLost(f"{job.name}: its worker process {reason}, twice; {LOST}"))
        self._tried.add(job)
        self._again.append(job)
        self.tell(f"{job.name}: its worker process {reason}; it is tried once more")
        return None

    def _reason(self, worker: _Worker, code: int) -> str:
        if worker.overdue:
            return f"took longer than {self.limit:g} s and was ended"
        if code == NO_MEMORY:
            return "ran out of memory"
        worker.complaints.seek(0)
        lines = [
            line for line in worker.complaints.read()[-4000:].decode(errors="replace").splitlines() if line
        ]
        last = next((line for line in reversed(lines) if "Error" in line or "error" in line), "")
        more = f": {last.strip()[:160]}" if last else ""
        if code >= 0:
            return f"ended with exit code {code}{more}"
        name = signal.Signals(-code).name if -code in [*signal.Signals] else f"signal {-code}"
        memory = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return f"was killed by {name}{memory}{more}"

    def _end_overdue(self) -> None:
        for worker in self._workers:
            allowed = (self.limit or 0.0) + (0.0 if worker.begun else IMPORTS)
            late = self.limit is not None and time.monotonic() - worker.since > allowed
            if late and worker.ready and worker.job is not None and not worker.overdue:
                worker.overdue = True
                worker.process.kill()

    @staticmethod
    def _bury(worker: _Worker) -> None:
        worker.process.wait()
        for stream in (worker.process.stdin, worker.complaints):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def _packed(job: Job) -> bytes:
    payload = pickle.dumps((job.call, job.arguments))
    needed = b"__main__" in payload
    if needed and main_file() is None:
        raise InputError(
            f"{job.name} uses what this session defines, which worker processes cannot see; put it into a file and "
            "import it from there, or use one job"
        )
    return pickle.dumps((main_file(), needed, payload))
