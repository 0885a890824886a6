"""The cost of shadow models: probes that are stopped in time, and arithmetic on what is missing."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

import residua as rs
from residua.study import shadows
from residua.study.shadows import Cost, Plan, ShadowScoring, ShadowTraining, cost
from residua.unlearn import FineTune, Original

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_long_training_is_stopped_and_its_end_computed(net, task, monkeypatch):
    """By a clock that moves one second at each look, and is looked at once at the start and once a step."""

    def spent(epochs: int, patience: float) -> Cost:
        clock = itertools.count()
        monkeypatch.setattr(shadows, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        training = rs.Pretraining(epochs=epochs, batch=60, crop=0, precision="float32")
        return cost(lambda: training(net, task.retain), patience)

    steps = 3
    assert spent(1000, patience=7) == Cost(1000 * steps, whole=False)
    assert spent(1000, patience=0) == Cost(1000 * steps, whole=False)
    assert spent(2, patience=50) == Cost(2 * steps + 1, whole=True)  # one more look at the end


def test_a_probe_begins_again_with_every_training(net, task, monkeypatch):
    """Two trainings of 3 steps, then one of 3000 that is stopped: the first two are paid, the third computed."""
    clock = itertools.count()
    monkeypatch.setattr(shadows, "time", SimpleNamespace(perf_counter=lambda: next(clock)))

    def three() -> None:
        for epochs in (1, 1, 1000):
            rs.Pretraining(epochs=epochs, batch=60, crop=0, precision="float32")(net, task.retain)

    assert cost(three, 8) == Cost(6 + 3000, whole=False)


@pytest.fixture
def plan(monkeypatch):
    """Ten seconds for a training, one to look at Original, five for FT; so many are there already."""

    def make(jobs: int = 1, models: int = 0, scored: int = 0) -> Plan:
        costs = {("train", ""): Cost(10.0), ("score", "Original"): Cost(1.0), ("score", "FT"): Cost(5.0)}
        monkeypatch.setattr(Plan, "_probe", lambda self: costs)
        trainings = [ShadowTraining(model) for model in range(16)]
        cells = [
            *trainings[models:],
            *(ShadowScoring(Original(), n, each) for each in trainings[scored:] for n in range(4)),
            *(ShadowScoring(FineTune(), n, each) for each in trainings for n in range(4)),
        ]
        return Plan(None, cells, models=16, sets=4, jobs=jobs)

    return make


def test_only_what_is_missing_is_paid_for(plan):
    assert plan().seconds(16, 4) == 16 * 10 + 16 * 4 * (1 + 5)
    assert plan(jobs=4).seconds(16, 4) == (16 * 10 + 16 * 4 * (1 + 5)) / 4
    assert plan().seconds(4, 1) == 4 * 10 + 4 * (1 + 5)
    assert plan(models=6, scored=5).seconds(16, 4) == 10 * 10 + 11 * 4 + 16 * 4 * 5
    assert plan(models=6, scored=5).seconds(4, 2) == 0 + 0 + 4 * 2 * 5


def test_the_largest_numbers_that_fit_are_cut_down_alike(plan):
    full = plan()
    assert full.largest(full.seconds(16, 4)) == (16, 4)
    assert full.largest(full.seconds(8, 2)) == (8, 2)
    assert full.largest(full.seconds(16, 1)) == (8, 3), "half of both rather than all of one"
    assert full.largest(full.seconds(4, 1)) == (4, 1)
    assert full.largest(full.seconds(4, 1) - 1) is None


def test_a_method_that_was_stopped_makes_the_plan_a_lower_bound(plan):
    found = plan()
    assert found.whole
    found.costs["score", "FT"] = Cost(30.0, whole=False)
    assert not found.whole
