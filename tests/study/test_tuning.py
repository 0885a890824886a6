"""Tuning: what a choice is worth."""

from __future__ import annotations

import pytest

from residua.study.tuning import gap


def test_the_gap_is_that_of_ua_and_ta_on_either_side_and_of_nothing_else():
    retrain = {"UA": 0.9, "RA": 1.0, "TA": 0.8}
    assert gap(retrain, retrain) == 0
    assert gap({"UA": 1.0, "RA": 0.0, "TA": 0.6}, retrain) == pytest.approx(0.1 + 0.2)
    assert gap({"UA": 0.7, "TA": 0.85}, retrain) == pytest.approx(0.2 + 0.05)
    # What is lost in one is not made good by the other.
    assert gap({"UA": 0.8, "TA": 0.9}, retrain) == pytest.approx(0.2)
