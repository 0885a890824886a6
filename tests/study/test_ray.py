"""The Ray engine with a real Ray: a head and two nodes on this machine, one of which is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import pytest

import residua as rs
from residua.errors import InputError
from residua.measure import Accuracy
from residua.study import Row, Study
from residua.study.executors import ClusterLost, How, Job, RayExecutor, WorkerLost, executor
from residua.unlearn import Original, Retrain

NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


@pytest.fixture
def study(stripes, stripes_training) -> Study:
    quick = dataclasses.replace(stripes_training, epochs=1)
    part = dataclasses.replace(stripes, train=stripes.train.subset(range(160)))
    return Study(
        tasks={"stripes": rs.forget_classes(part, 2)},
        networks={"resnet18": NETWORK},
        pretraining=quick,
        methods=[Original(), *(Row(f"Retrain {n}", Retrain(quick), draw=n) for n in range(6))],
        measures=[Accuracy()],
    )


def test_an_address_without_ray_is_refused(study, tmp_path):
    with pytest.raises(InputError, match="add --engine ray"):
        study.run(tmp_path, address="auto")


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_engine_says_what_to_install(study, tmp_path):
    with pytest.raises(InputError, match=r"pip install 'residua\[ray\]'"):
        study.run(tmp_path, engine="ray")


def test_ray_is_not_started_where_anybody_may_have_put_files(tmp_path, monkeypatch):
    """It hands the folder in which it is started on to its workers, as a place to import from."""
    places = []

    class Ray:
        is_initialized = staticmethod(lambda: False)
        shutdown = staticmethod(lambda: None)
        remote = staticmethod(lambda function: types.SimpleNamespace(options=lambda **needs: None))

        @staticmethod
        def init(**how):
            places.append(Path.cwd())

    monkeypatch.setitem(sys.modules, "ray", Ray)
    monkeypatch.chdir(tmp_path)
    with executor(How(engine="ray")):
        assert Path.cwd() == tmp_path
    assert places == [Path(rs.__file__).resolve().parents[1]]


class Exceptions:
    """Ray's own, as far as they matter."""

    class RayError(Exception): ...

    class RayTaskError(RayError): ...

    class LocalRayletDiedError(RayError): ...

    class NodeDiedError(RayError): ...

    class WorkerCrashedError(RayError): ...


class FakeRay:
    """A cluster of so many living nodes that answers the first tasks with these errors, and then does them."""

    exceptions = Exceptions

    def __init__(self, nodes: int, *errors: Exception) -> None:
        self.alive, self.errors = nodes, list(errors)

    def remote(self, function):
        task = types.SimpleNamespace(remote=lambda *words: (object(), function, words))
        return types.SimpleNamespace(options=lambda **needs: task)

    def wait(self, references, **how):
        return references[:1], references[1:]

    def nodes(self):
        return [{"Alive": True}] * self.alive

    def get(self, reference):
        if self.errors:
            raise self.errors.pop(0)
        return reference[1](*reference[2])


def test_a_lost_cluster_stops_the_run_and_is_no_failed_cell():
    for ray in (FakeRay(1, Exceptions.LocalRayletDiedError("gone")), FakeRay(0, Exceptions.NodeDiedError("gone"))):
        cluster = RayExecutor(ray, {})
        cluster.give(Job("one", int, ("3",)))
        with pytest.raises(ClusterLost, match="the same command resumes"):
            cluster.wait()


def test_a_job_whose_node_died_goes_to_the_nodes_that_are_left():
    cluster = RayExecutor(FakeRay(1, Exceptions.NodeDiedError("gone")), {})
    cluster.give(Job("one", int, ("3",)))
    assert cluster.wait() == []
    (outcome,) = cluster.wait()
    assert outcome.value == 3


def test_a_worker_that_crashes_on_a_living_cluster_is_a_failed_cell():
    cluster = RayExecutor(FakeRay(1, Exceptions.WorkerCrashedError("crashed")), {})
    cluster.give(Job("one", int, ("3",)))
    assert isinstance(cluster.wait()[0].error, WorkerLost)


@pytest.fixture
def nodes():
    """A head and two further nodes of one processor each, as three `ray start`; their address, and the two."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    place = tempfile.mkdtemp(prefix="ray")  # Ray's sockets need a short path
    common = ["--num-cpus", "1", "--object-store-memory", str(100 * 2**20), "--block"]
    head = ray_start("--head", "--port", str(port), "--temp-dir", place, "--include-dashboard", "false", *common)
    started = [head]
    try:
        wait_for(lambda: answers(port), "the head does not answer")
        started += [ray_start("--address", address, *common) for _ in range(2)]
        yield address, started[1:]
    finally:
        for each in reversed(started):
            end(each)
        shutil.rmtree(place, ignore_errors=True)


def ray_start(*words: str) -> subprocess.Popen:
    code = "from ray.scripts.scripts import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "start", "--disable-usage-stats", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(node: subprocess.Popen) -> None:
    """Kill a node and all that it started."""
    children = descendants(node.pid)
    for process in (node.pid, *children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    node.wait()


def descendants(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found += [int(stat.parent.name), *descendants(int(stat.parent.name))]
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_for(condition, what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_cluster_gives_the_same_numbers_though_a_node_is_killed(study, nodes, tmp_path):
    import ray

    address, (doomed, _) = nodes
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    alive = []
    try:
        wait_for(lambda: ray.cluster_resources().get("CPU") == 3, "three nodes do not come up")

        def kill() -> None:
            wait_for(lambda: len(list((tmp_path / "ray/cells").glob("*.json"))) >= 2, "no cell is made")
            end(doomed)

        killer = threading.Thread(target=kill)
        killer.start()
        there = study.run(tmp_path / "ray", engine="ray", address=address)
        killer.join()
        wait_for(lambda: ray.cluster_resources().get("CPU") == 2, "the killed node is still there")
        alive = [node for node in ray.nodes() if node["Alive"]]
    finally:
        ray.shutdown()
    assert len(alive) == 2
    assert there.failures == {}
    here = study.run(tmp_path / "here")
    assert [r.readings for r in there.records] == [r.readings for r in here.records]
    assert [r.method.weights for r in there.records] == [r.method.weights for r in here.records]
