from __future__ import annotations

import pytest

from residua.nested import Difference, differences


def test_every_place_that_differs_is_named_with_both_values():
    left = {"a": {"b": 1, "c": [1, 2]}, "only": None, "same": "x"}
    right = {"a": {"b": 2, "c": [1, 3]}, "more": 0, "same": "x"}
    assert differences(left, right) == [
        Difference("a.b", 1, 2),
        Difference("a.c.1", 2, 3),
        Difference("more", None, 0),
    ]
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
