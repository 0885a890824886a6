"""The Ray engine with a real Ray: a head and two nodes on this machine, one of which is killed."""

from __future__ import annotations

import dataclasses
import importlib.util
import threading
import time
from pathlib import Path

import pytest

import residua as rs
from residua.errors import InputError
from residua.measure import Accuracy
from residua.study import Row, Study
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


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_a_cluster_gives_the_same_numbers_though_a_node_is_killed(study, tmp_path):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    import ray

    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    try:
        killer = threading.Thread(target=_kill_later, args=(cluster, nodes[0], tmp_path / "ray"))
        killer.start()
        there = study.run(tmp_path / "ray", engine="ray", address=cluster.address)
        killer.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert there.failures == {}
    here = study.run(tmp_path / "here")
    assert [r.readings for r in there.records] == [r.readings for r in here.records]
    assert [r.method.weights for r in there.records] == [r.method.weights for r in here.records]


def _kill_later(cluster, node, out: Path) -> None:
    deadline = time.monotonic() + 120
    while len(list((out / "cells").glob("*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)
