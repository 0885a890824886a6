"""Executors: this process, worker processes under a supervisor, or tasks of a Ray cluster.

With one thread each, the numbers do not depend on how many workers run at once, nor on how many cores there are. A
worker that is killed, runs out of memory or takes too long is replaced, and its job tried once more; a second time is
an answer. `concurrent.futures` has none of this: there, one killed process breaks the pool.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

import torch

from residua.device import child_command, visible_gpus
from residua.errors import InputError
from residua.parallel import PROCESSES, cores, one_thread
from residua.training.keeping import EVERY
from residua.worker import BEGUN, NO_MEMORY, READY, main_file, receive, send

# Advice at the end of the sentence that reports a lost worker.
LOST = "run it again with more memory or time, or with fewer --jobs"

Tell = Callable[[str], None]


def silent(sentence: str) -> None:
    """For callers that want no messages."""


@dataclass(frozen=True)
class How:
    """Options of a computation; no number depends on them but on another kind of device.

    Args:
        jobs: Worker processes, with one thread each; 1 is this process.
        device: Device that models are trained and measured on.
        limit: Maximum number of seconds for one group of cells.
        keep: Seconds after which a training keeps its state.
        command: Command line, kept with every result.
        tell: Called with each message, a sentence.
        progress: Called with the state of the run (`schedule.Step`) after each change.
        engine: Processes of this machine, or tasks of a Ray cluster.
        address: Address of the Ray cluster.
        memory: Bytes that a task of the Ray cluster needs.
    """

    jobs: int = 1
    device: str = "cpu"
    limit: float | None = None
    keep: float = EVERY
    command: str = ""
    tell: Tell = silent
    progress: Callable[[Any], None] = lambda step: None
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    memory: int | None = None


class WorkerLost(InputError):
    """A job's worker ended twice before it had an answer: killed, out of memory or out of time, so not our error."""


class ClusterLost(InputError):
    """The cluster is gone, so no cell has failed: the run stops, and the same command resumes it."""


@dataclass(frozen=True, eq=False)
class Job:
    """A call, and a name for messages. It has to be picklable: functions by their place in a module."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    about: Any = None  # whatever the caller wants to find again in the outcome


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a job: a value, or an error with the worker's traceback."""

    job: Job
    value: Any = None
    error: Exception | None = None
    traceback: str = ""


class Executor(Protocol):
    """Does jobs: in this process (`InProcess`), in several (`Workers`) or in a cluster (`RayExecutor`)."""

    @property
    def at_once(self) -> int:
        """Number of jobs that are done at the same time."""

    @property
    def free(self) -> int:
        """Number of further jobs that can be given."""

    def give(self, job: Job) -> None: ...

    def wait(self, seconds: float = 1.0) -> list[Outcome]:
        """Outcomes of finished jobs; empty where none was finished within these seconds."""


class InProcess:
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
        try:
            return Outcome(job, _do(job.call, job.arguments))
        except Exception as error:
            return Outcome(job, error=error)


class Shared:
    """A handle. In this process it holds the object; pickled, it is the path and the hash of a file.

    The file is written when the handle is first pickled, into a folder that every worker can see.
    """

    def __init__(self, value: Any, folder: Path) -> None:
        self._value = value
        self._folder = folder
        self._file: tuple[str, str] | None = None

    def get(self) -> Any:
        if self._value is None and self._file is not None:
            self._value = _opened(*self._file)
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        if self._file is None:
            content = pickle.dumps(self._value, protocol=pickle.HIGHEST_PROTOCOL)
            path = self._folder / "shared.pickle"
            path.write_bytes(content)
            self._file = (str(path), hashlib.sha256(content).hexdigest())
        return {"_value": None, "_folder": self._folder, "_file": self._file}


@functools.lru_cache(maxsize=2)
def _opened(path: str, sha256: str) -> Any:
    content = Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} was changed while the study ran; run it again")
    return pickle.loads(content)


# Seconds that a worker has between the request to stop and being killed.
GRACE = 3.0
# Seconds that a worker may take to import what a job needs, beside the job's own limit.
IMPORTS = 300.0
# What PyTorch, and whatever else computes, takes its number of threads from.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Workers that may end before they were ready, in a row; then something is wrong with all of them.
FALSE_STARTS = 3


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

    `limit` is the most seconds for a job; with several `gpus`, each worker sees one of them, and with any the workers share
    the cores, since critics on pooled features are fitted there. Only the thread that made
    this object may call it: on Linux a worker ends with the thread that started it.
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
            self._reap(worker)
        self._workers.clear()

    def _start(self) -> _Worker:
        code = f"from residua.worker import main; main({os.getpid()})"
        slot = next(n for n in range(self.count) if n not in {each.slot for each in self._workers})
        names = visible_gpus(self.gpus)
        one_gpu = {"CUDA_VISIBLE_DEVICES": names[slot % len(names)]} if len(names) > 1 else {}
        share = {PROCESSES: str(max(1, cores() // self.count))} if self.gpus else {}
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        process = subprocess.Popen(
            child_command(code),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=share | os.environ | dict.fromkeys(ONE_THREAD, "1") | one_gpu,
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
        return Outcome(job, *content)

    def _ended(self, worker: _Worker) -> Outcome | None:
        """A worker is gone: its job goes to another one, or has failed if that was the second time."""
        if worker not in self._workers:
            return None
        self._workers.remove(worker)
        code = worker.process.wait()
        reason = self._reason(worker, code)
        self._reap(worker)
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
        lines = [line for line in worker.complaints.read()[-4000:].decode(errors="replace").splitlines() if line]
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
    def _reap(worker: _Worker) -> None:
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


# How often Ray runs a task again whose process or node is gone.
RETRIES = 2


@contextlib.contextmanager
def executor(how: How) -> Iterator[Executor]:
    """A Ray cluster, workers, or this process where one is enough. A time limit needs a process that can be ended."""
    if how.engine == "ray":
        with _ray(how) as cluster:
            yield cluster
    elif how.address is not None:
        raise InputError(f"--address {how.address} is for Ray; add --engine ray")
    elif how.jobs == 1 and how.limit is None:
        yield InProcess()
    else:
        gpus = torch.cuda.device_count() if how.device == "cuda" else int(how.device.startswith("cuda"))
        with Workers(how.jobs, limit=how.limit, tell=how.tell, gpus=gpus) as workers:
            yield workers


@contextlib.contextmanager
def _ray(how: How) -> Iterator[RayExecutor]:
    try:
        import ray
    except ImportError as error:
        raise InputError("the Ray engine needs Ray; install it with: pip install 'residua[ray]'") from error
    ours = not ray.is_initialized()
    if ours:
        local: dict[str, Any] = {} if how.address else {"num_cpus": how.jobs, "include_dashboard": False}
        try:
            with _at_home():
                ray.init(address=how.address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0][:160]
            raise InputError(f"no Ray cluster answers at {how.address or 'this machine'} ({first})") from error
    try:
        needs: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES}
        needs |= {"num_gpus": 1} if how.device.startswith("cuda") else {}
        needs |= {"memory": how.memory} if how.memory else {}
        yield RayExecutor(ray, needs)
    finally:
        if ours:
            ray.shutdown()


@contextlib.contextmanager
def _at_home() -> Iterator[None]:
    """Stand where the package is: Ray lets its workers import from the folder in which it is started.

    The working directory may be anybody's, and a file there with the name of a module would be run.
    """
    before = Path.cwd()
    os.chdir(Path(__file__).resolve().parents[2])
    try:
        yield
    finally:
        os.chdir(before)


class RayExecutor:
    """Gives jobs to Ray as tasks of one processor each. As many run at once as the cluster has room for."""

    def __init__(self, ray: Any, needs: dict[str, Any]) -> None:
        self._ray = ray
        self._remote = ray.remote(_do).options(**needs)
        self._running: dict[Any, Job] = {}
        self._tried: set[Job] = set()  # whose node has died
        self._gpus = "num_gpus" in needs

    @property
    def at_once(self) -> int:
        """The processors (or GPUs) that the cluster has now."""
        return max(1, int(self._ray.cluster_resources().get("GPU" if self._gpus else "CPU", 1)))

    @property
    def free(self) -> int:
        """Twice the processors (or GPUs): Ray keeps its own queue, so that no node waits for this process."""
        return max(0, 2 * self.at_once - len(self._running))

    def give(self, job: Job) -> None:
        self._running[self._remote.remote(job.call, job.arguments)] = job

    def wait(self, seconds: float = 1.0) -> list[Outcome]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        outcomes = [self._outcome(reference) for reference in ready]
        return [outcome for outcome in outcomes if outcome is not None]

    def _outcome(self, reference: Any) -> Outcome | None:
        job = self._running.pop(reference)
        try:
            return Outcome(job, self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return Outcome(job, error=cause)
        except self._ray.exceptions.RayError as error:
            first = str(error).splitlines()[0][:160]
            exceptions = self._ray.exceptions
            alone = isinstance(error, exceptions.LocalRayletDiedError)
            if alone or not any(node["Alive"] for node in self._ray.nodes()):
                raise ClusterLost(
                    f"the Ray cluster is gone ({first}); what is finished is kept, and the same command resumes"
                ) from error
            if isinstance(error, exceptions.NodeDiedError) and job not in self._tried:
                self._tried.add(job)
                self.give(job)  # to one of the nodes that are left
                return None
            return Outcome(job, error=WorkerLost(f"{job.name}: {first}; {LOST}"))


def _do(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with one_thread():
        return call(*arguments)
