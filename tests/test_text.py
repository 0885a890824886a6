from __future__ import annotations

import re

import pytest

from residua.errors import InputError
from residua.record import NAME
from residua.text import Difference, differences, duration, seconds_of, slug


def test_durations_are_read_in_every_unit_and_without_one():
    assert [seconds_of(text) for text in ("90", "90s", "10m", "1.5h", "3d", " 2 m ")] == [
        90, 90, 600, 5400, 259200, 120,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "soon", "0m", "-3s", "1e3", "5w", "٣s", "1m30s"])
def test_what_is_not_a_duration_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="write 90s, 10m, 2h or 3d"):
        seconds_of(text)


def test_durations_are_written_in_the_unit_that_a_reader_expects():
    texts = [duration(seconds) for seconds in (0.04, 12, 119, 130, 7300, 200_000)]
    assert texts == ["0.0 s", "12 s", "119 s", "2.2 m", "2.0 h", "2.3 d"]


@pytest.mark.parametrize("label", ["COLA+", "EU-10", "l1-sparse", "Second Retrain", "...", "Ä x/../y", "a.b"])
def test_a_label_becomes_the_name_of_a_record(label):
    assert re.fullmatch(NAME, slug(label))
    assert slug("COLA+") == "cola-plus"
    assert slug("COLA+") != slug("COLA")


def test_every_place_that_differs_is_named_with_both_values():
    left = {"a": {"b": 1, "c": [1, 2]}, "only": None, "same": "x"}
    right = {"a": {"b": 2, "c": [1, 3]}, "more": 0, "same": "x"}
    assert differences(left, right) == [Difference("a.b", 1, 2), Difference("a.c.1", 2, 3), Difference("more", None, 0)]
    assert differences([1], [1, 2]) == [Difference("", [1], [1, 2])]
    assert differences({"x": True}, {"x": 1.0 + 1e-9}) != [], "a truth value is not a number"


@pytest.mark.parametrize(("other", "equal"), [(1.0 + 1e-9, True), (1.0 + 1e-3, False)])
def test_numbers_may_differ_by_the_tolerance_and_no_more(other, equal):
    assert (differences({"x": 1.0}, {"x": other}, tolerance=1e-6) == []) is equal
    assert differences({"x": 1.0}, {"x": other}) != []


def test_long_values_are_cut_for_a_sentence():
    was, now = Difference("x", "y" * 200, None).short()
    assert len(was) == 60
    assert now == "none"


def test_whole_numbers_beyond_floating_point_are_compared():
    assert differences({"seed": 10**400}, {"seed": 10**400}, tolerance=1e-6) == []
    assert len(differences({"seed": 10**400}, {"seed": 1.5}, tolerance=1e-6)) == 1
