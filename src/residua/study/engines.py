"""Engines: who computes cells. This process, worker processes under a supervisor, or tasks of a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from residua.errors import InputError
from residua.study.jobs import LOST, Crew, Job, Outcome, Tell, WorkerLost, one_thread
from residua.study.workers import crew

Engine = Literal["local", "ray"]
# How often Ray runs a task again whose process or node is gone.
RETRIES = 2


@contextlib.contextmanager
def engaged(
    engine: Engine,
    jobs: int,
    *,
    limit: float | None,
    tell: Tell,
    address: str | None = None,
    device: str = "cpu",
    memory: int | None = None,
) -> Iterator[Crew]:
    """A crew of this kind; `address`, `memory` (bytes per cell) and GPUs are Ray's."""
    if engine == "local":
        if address is not None:
            raise InputError(f"--address {address} is for Ray; add --engine ray")
        with crew(jobs, limit=limit, tell=tell, gpus=_gpus() if device == "cuda" else 0) as workers:
            yield workers
    else:
        with _ray(jobs, address, device, memory) as cluster:
            yield cluster


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


@contextlib.contextmanager
def _ray(jobs: int, address: str | None, device: str, memory: int | None) -> Iterator[RayCrew]:
    try:
        import ray
    except ImportError as error:
        raise InputError("the Ray engine needs Ray; install it with: pip install 'residua[ray]'") from error
    ours = not ray.is_initialized()
    if ours:
        local: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
        try:
            with _at_home():
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0][:160]
            raise InputError(f"no Ray cluster answers at {address or 'this machine'} ({first})") from error
    try:
        needs: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES}
        needs |= {"num_gpus": 1} if device.startswith("cuda") else {}
        needs |= {"memory": memory} if memory else {}
        yield RayCrew(ray, needs)
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


class RayCrew:
    """Gives jobs to Ray as tasks of one processor each. As many run at once as the cluster has room for."""

    def __init__(self, ray: Any, needs: dict[str, Any]) -> None:
        self._ray = ray
        self._remote = ray.remote(_do).options(**needs)
        self._running: dict[Any, Job] = {}
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
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        job = self._running.pop(reference)
        try:
            return Outcome(job, self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            return Outcome(job, error=cause)
        except self._ray.exceptions.RayError as error:
            first = str(error).splitlines()[0][:160]
            return Outcome(job, error=WorkerLost(f"{job.name}: {first}; {LOST}"))


def _do(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with one_thread():
        return call(*arguments)
