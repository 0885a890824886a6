"""What shadow models cost: probes that are stopped in time, and arithmetic on what is missing."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

import residua as rs
from residua import budget
from residua.budget import Cost, Plan, cost
from residua.unlearn import FineTune, Original

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_long_training_is_stopped_and_its_end_computed(net, task, monkeypatch):
    """By a clock that moves one second at each look, and is looked at once at the start and once a step."""

    def spent(epochs: int, patience: float) -> Cost:
        clock = itertools.count()
        monkeypatch.setattr(budget, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        training = rs.Pretraining(epochs=epochs, batch=60, crop=0, precision="float32")
        return cost(lambda: training(net, task.retain), patience)

    steps = 3
    assert spent(1000, patience=7) == Cost(1000 * steps, whole=False)
    assert spent(1000, patience=0) == Cost(1000 * steps, whole=False)
    assert spent(2, patience=50) == Cost(2 * steps + 1, whole=True)  # one more look at the end


def test_a_probe_begins_anew_with_every_training(net, task, monkeypatch):
    """Two trainings of 3 steps, then one of 3000 that is stopped: the first two are paid, the third computed."""
    clock = itertools.count()
    monkeypatch.setattr(budget, "time", SimpleNamespace(perf_counter=lambda: next(clock)))

    def three() -> None:
        for epochs in (1, 1, 1000):
            rs.Pretraining(epochs=epochs, batch=60, crop=0, precision="float32")(net, task.retain)

    assert cost(three, 8) == Cost(6 + 3000, whole=False)


class There:
    """So many models, and scores of so many models, are there already."""

    def __init__(self, models: int, scored: int) -> None:
        self.models, self.scored = models, scored

    def find_model(self, model: int) -> object:
        return True if model < self.models else None

    def find_scores(self, method: object, model: int, number: int) -> object:
        there = isinstance(method, Original) and model < self.scored
        return SimpleNamespace(method={"original": f"weights of {model}"}) if there else None


@pytest.fixture
def plan(monkeypatch):
    """Ten seconds for a training, one to look at Original, five for FT."""

    def make(jobs: int = 1, models: int = 0, scored: int = 0) -> Plan:
        costs = Cost(10.0), {Original(): Cost(1.0), FineTune(): Cost(5.0)}
        monkeypatch.setattr(Plan, "_probe", lambda self: costs)
        return Plan(There(models, scored), list(costs[1]), 16, 4, jobs)

    return make


def test_only_what_is_missing_is_paid_for(plan):
    assert plan().seconds(16, 4) == 16 * 10 + 16 * 4 * (1 + 5)
    assert plan(jobs=4).seconds(16, 4) == (16 * 10 + 16 * 4 * (1 + 5)) / 4
    assert plan().seconds(4, 1) == 4 * 10 + 4 * (1 + 5)
    assert plan(models=6, scored=5).seconds(16, 4) == 10 * 10 + 11 * 4 + 16 * 4 * 5
    assert plan(models=6, scored=5).seconds(4, 2) == 0 + 0 + 4 * 2 * 5
    # A model that is trained again may have other weights, so its scores are counted.
    assert plan(models=3, scored=5).seconds(16, 4) == 13 * 10 + 13 * 4 + 16 * 4 * 5


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
    found.unlearning[FineTune()] = Cost(30.0, whole=False)
    assert not found.whole
