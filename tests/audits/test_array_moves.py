"""The distance of arrays: in the mean of their entries, not in single ones."""

from __future__ import annotations

import numpy as np
import pytest

import residua as rs
from residua.audits.rerunning import array_moves, distance, same_arrays


def record(**arrays: np.ndarray) -> rs.Record:
    return rs.Record(name="one", setting={}, method={"label": "One"}, seeds={}, readings={}, arrays=arrays)


@pytest.mark.parametrize(
    ("x", "y", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0, 0.0], [0.1, -0.1], 0.1),
        ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.4, 0.0]], 0.2),  # the row that is furthest
        ([100.0, 100.0], [101.0, 99.0], 0.01),  # a share of what is above 1
        ([-np.inf, 0.0], [-np.inf, 0.0], 0.0),
        ([-np.inf, 0.0], [-1.0, 0.0], np.inf),
        ([0, 1, 2, 3], [0, 1, 2, 9], 0.25),
        ([True, False], [True, True], 0.5),
        ([], [], 0.0),
        (3.0, 3.5, 0.5 / 3),
    ],
)
def test_distances(x, y, apart):
    assert distance(np.array(x), np.array(y)) == pytest.approx(apart)


def test_only_what_is_beyond_the_tolerance_is_named():
    then, now = record(a=np.zeros(10), b=np.zeros(10)), record(a=np.full(10, 0.01), b=np.full(10, 0.03))
    assert array_moves({"u": then}, {"u": now}, 0.02) == [
        "array b of u was measured again as values that are 0.03 away in the mean"
    ]
    assert not same_arrays(then, now)
    assert same_arrays(then, then)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (record(), "array a of u is there, but measuring again does not give it"),
        (record(a=np.zeros(3), b=np.zeros(1)), "array b of u is missing, but measuring again gives it"),
        (record(a=np.zeros(4)), "array a of u is float64 (3,), but was measured again as float64 (4,)"),
        (record(a=np.zeros(3, int)), "array a of u is float64 (3,), but was measured again as int64 (3,)"),
        (record(a=np.full(3, np.nan)), "array a of u was measured again as values that are nan away in the mean"),
    ],
)
def test_what_cannot_be_compared_is_named(now, says):
    assert array_moves({"u": record(a=np.zeros(3))}, {"u": now}, 0.02) == [says]


def test_a_critic_that_was_fitted_for_longer_is_not_another_reading():
    then, now = (record(**{"information.course": np.zeros((rounds, 5))}) for rounds in (2, 3))
    assert array_moves({"u": then}, {"u": now}, 0.02) == []
    assert not same_arrays(then, now)
