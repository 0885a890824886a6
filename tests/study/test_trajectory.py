"""Trajectory: one row an epoch, across the phases of a method."""

from __future__ import annotations

import pytest

import residua as rs
from residua.measure import Accuracy
from residua.models.classifier import weights_digest
from residua.study.cells import Trajectory
from residua.unlearn import Cola

pytestmark = pytest.mark.usefixtures("one_thread")


def test_colas_two_phases_follow_each_other_and_looking_changes_nothing(net, task):
    method = Cola(collapse_epochs=2, align_epochs=1, collapse_lr=1e-2, align_lr=1e-2, batch=60, crop=1)
    followed = Trajectory(task)
    with rs.seeded(3), rs.watching(followed):
        watched = method(net, task)
    with rs.seeded(3):
        alone = method(net, task)
    assert weights_digest(watched) == weights_digest(alone)
    found = followed.array()
    assert found.shape == (3, 3)
    values = Accuracy()(watched, task).values
    assert found[-1].tolist() == [values[name] for name in ("UA", "RA", "TA")]
    assert followed.seconds > 0
    # Nobody follows any more.
    with rs.seeded(3):
        method(net, task)
    assert len(followed.rows) == 3
