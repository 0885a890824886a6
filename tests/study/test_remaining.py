"""The time that a study still takes, by what its cells have taken so far."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from residua.cli.console import time_left
from residua.study.cells import FIRST
from residua.study.schedule import Remaining


@dataclass(frozen=True, eq=False)
class Stub:
    kind: str
    label: str = ""
    cost: float = 0.0

    @property
    def method(self) -> Any:
        return SimpleNamespace(label=self.label) if self.label else None


def many(count: int, kind: str, label: str = "", cost: float = 0.0) -> list[Stub]:
    return [Stub(kind, label, cost) for _ in range(count)]


def test_quick_cells_are_not_taken_for_as_slow_as_the_trainings_that_come_first():
    """20 trainings of 25 s, then 400 readings of 2 s and 20 of 100 s: what was made first says nothing of the rest."""
    trainings = many(20, "train", cost=FIRST + 6)
    readings = [*many(400, "measure", "accuracy"), *many(20, "measure", "information")]
    remaining = Remaining([*trainings, *readings])
    assert (remaining.left().seconds, remaining.left().unknown) == (0.0, 440)
    for cell in trainings[:2]:
        remaining.done(cell, 25.0)
    assert remaining.left().seconds == pytest.approx(18 * 25)
    assert remaining.left().unknown == 420
    for cell in trainings[2:]:
        remaining.done(cell, 25.0)
    remaining.done(readings[0], 2.0)
    remaining.done(readings[-1], 100.0)
    assert remaining.left().seconds == pytest.approx(399 * 2 + 19 * 100)
    assert remaining.left().unknown == 0


def test_a_method_that_was_never_run_costs_what_its_epochs_cost_others():
    training, retrain, quick = (Stub("train", cost=FIRST + 10), Stub("unlearn", "Retrain", 20), Stub("unlearn", "GA"))
    reading = Stub("measure", "accuracy", 20)
    remaining = Remaining([training, retrain, quick, reading])
    remaining.done(training, 30.0)
    assert remaining.left().seconds == pytest.approx(60)  # and none for what declares no epochs
    assert remaining.left().unknown == 1  # a measure declares nothing of its own
    remaining.done(retrain, 90.0)
    remaining.done(quick, 1.0)
    remaining.done(reading)  # failed
    assert remaining.left() == Remaining([]).left()


def test_what_has_to_be_made_again_is_left_again():
    one, other = many(2, "unlearn", "HD", 3)
    remaining = Remaining([one, other])
    remaining.done(one, 8.0)
    remaining.done(other, 12.0)
    remaining.again(one)
    assert remaining.left().seconds == pytest.approx(10)


def test_cells_of_one_kind_are_weighed_by_what_they_declare():
    small, large = Stub("calibrate", cost=100.0), Stub("calibrate", cost=5000.0)
    remaining = Remaining([small, large])
    remaining.done(small, 1.0)
    assert remaining.left().seconds == pytest.approx(50)


def test_what_a_store_remembers_is_used_until_something_was_made():
    cells = many(3, "unlearn", "HD", 4)
    before = {("unlearn", "HD"): 5.0}
    remaining = Remaining(cells)
    assert remaining.left(before).seconds == pytest.approx(15)
    remaining.done(cells[0], 7.0)
    assert remaining.left(before).seconds == pytest.approx(14)


@pytest.mark.parametrize(
    ("seconds", "unknown", "words"), [(0.0, 5, ""), (300.0, 0, "about 5.0 m"), (300.0, 5, "at least 5.0 m")]
)
def test_words_say_whether_all_is_known(seconds, unknown, words):
    assert time_left(seconds, unknown) == words
