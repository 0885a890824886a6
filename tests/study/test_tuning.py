"""Tuning: what a choice is worth, and that trials are cells like any other."""

from __future__ import annotations

import dataclasses

import pytest

import residua as rs
from residua.measure import Accuracy
from residua.study import Study
from residua.study.tuning import WORST, Start, gap, tune
from residua.unlearn import FineTune, Original, Retrain

pytestmark = pytest.mark.usefixtures("one_thread")

NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


def test_the_gap_is_that_of_ua_and_ta_on_either_side_and_of_nothing_else():
    retrain = {"UA": 0.9, "RA": 1.0, "TA": 0.8}
    assert gap(retrain, retrain) == 0
    assert gap({"UA": 1.0, "RA": 0.0, "TA": 0.6}, retrain) == pytest.approx(0.1 + 0.2)
    assert gap({"UA": 0.7, "TA": 0.85}, retrain) == pytest.approx(0.2 + 0.05)
    # What is lost in one is not made good by the other.
    assert gap({"UA": 0.8, "TA": 0.9}, retrain) == pytest.approx(0.2)


@pytest.fixture
def task(stripes) -> rs.ForgetTask:
    part = dataclasses.replace(
        stripes, train=stripes.train.subset(range(160)), test=stripes.test.subset(range(80))
    )
    return rs.forget_classes(part, 2)


@pytest.fixture
def start(stripes_training) -> Start:
    return Start(NETWORK, dataclasses.replace(stripes_training, epochs=1))


FT = FineTune(epochs=1, lr=1e-3, batch=32, crop=0, flip=False)


def numbered(trials) -> list:
    return sorted(trials, key=lambda trial: trial.number)


def test_a_search_goes_on_in_the_folder_of_a_study(task, start, tmp_path):
    study = Study(
        tasks={"stripes": task},
        networks={"r": NETWORK},
        pretraining=start.pretraining,
        methods=[Original(), Retrain(start.pretraining)],
        measures=[Accuracy()],
    )
    study.run(tmp_path)
    cells = tmp_path / "cells"
    there = len(list(cells.iterdir()))
    six = tune(FT, task, start, out=tmp_path, trials=6, epochs=1)
    assert len(list(cells.iterdir())) == there + 6, "Original, Retrain and its accuracy are the study's"
    seven = tune(FT, task, start, out=tmp_path, trials=7, epochs=1)
    assert numbered(seven)[:6] == numbered(six), "a search that goes on begins with what it has tried"
    assert len(list(cells.iterdir())) == there + 7
    assert [trial.gap for trial in seven] == sorted(trial.gap for trial in seven)
    assert numbered(seven)[0].fields == {"epochs": 1, "lr": 1e-3}
    assert study.run(tmp_path).computed == 0


def test_a_choice_that_diverges_is_worth_least_and_remembered(task, start, tmp_path):
    wild = dataclasses.replace(FT, lr=1e30)
    (trial,) = tune(wild, task, start, out=tmp_path, trials=1, low=1e30, high=1e30)
    assert (trial.gap, trial.values) == (WORST, {})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert tune(wild, task, start, out=tmp_path, trials=1, low=1e30, high=1e30) == [trial]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == before


@pytest.mark.slow
def test_trials_are_the_same_in_two_processes(task, start, tmp_path):
    here = tune(FT, task, start, out=tmp_path / "one", trials=6, epochs=1)
    there = tune(FT, task, start, out=tmp_path / "two", trials=6, epochs=1, jobs=2)
    assert here == there


def test_a_trial_whose_cell_fails_is_said_and_not_remembered(task, start, tmp_path):
    said: list[str] = []
    found = tune(_Failing(), task, start, out=tmp_path, trials=1, tell=said.append)
    assert found == []
    assert any("trial0 failed: ZeroDivisionError" in sentence for sentence in said)


@dataclasses.dataclass(frozen=True)
class _Failing(FineTune):
    def __call__(self, original, task):
        raise ZeroDivisionError("no luck")
