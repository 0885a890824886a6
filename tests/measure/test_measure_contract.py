"""Promises of every measure; a new one is tested here as soon as MEASURES names it."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import residua as rs
from residua.measure import MEASURES
from residua.measure import _outputs as outputs
from residua.measure.information import curve as information_curve
from residua.models.classifier import weights_digest
from residua.readings import Reading
from residua.record import describe

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"epochs": 1, "steps": 3, "rounds": 1}


def small(measure):
    """The measure with settings that take no time."""
    own = {field.name for field in dataclasses.fields(measure)}
    return measure(**{name: value for name, value in SMALL.items() if name in own})


@pytest.fixture(autouse=True)
def _nothing_remembered():
    """Readings are made here, not taken from what an earlier test left."""
    information_curve._curves.clear()


@pytest.fixture(params=["class", "random"])
def request_to_forget(request, data, task) -> rs.ForgetTask:
    return task if request.param == "class" else rs.forget_samples(data, 30, seed=1)


every_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)


@every_measure
@pytest.mark.parametrize("training", [True, False])
def test_a_measure_reads_and_changes_nothing(measure, net, request_to_forget, training):
    rs.freeze(net.blocks[2])
    net.train(training)
    weights = weights_digest(net)
    modes = [part.training for part in net.modules()]
    trainable = [p.requires_grad for p in net.parameters()]
    reading = small(measure)(net, request_to_forget)
    assert weights_digest(net) == weights
    assert [part.training for part in net.modules()] == modes
    assert [p.requires_grad for p in net.parameters()] == trainable
    assert all(p.grad is None for p in net.parameters())

    assert isinstance(reading, Reading)
    assert reading.values or reading.notes
    for name, value in reading.values.items():
        assert isinstance(name, str)
        assert type(value) is float
        assert math.isfinite(value)
    for array in reading.arrays.values():
        assert isinstance(array, np.ndarray)
        assert not array.dtype.hasobject


@every_measure
def test_the_same_seed_gives_the_same_reading_in_either_mode(measure, net, task):
    readings = []
    for training in (True, False):
        net.train(training)
        information_curve._curves.clear()
        outputs._passes.clear()
        with rs.seeded(1):
            readings.append(small(measure)(net, task))
    assert readings[0].values == readings[1].values
    for name, array in readings[0].arrays.items():
        assert np.array_equal(array, readings[1].arrays[name])


@every_measure
def test_a_measure_is_its_settings(measure, net, task, tmp_path):
    first, second = small(measure), small(measure)
    assert first == second
    assert hash(first) == hash(second)
    assert describe(first) == describe(second)
    assert json.loads(json.dumps(describe(first)))["label"] == measure.label
    for name in ["label", *(field.name for field in dataclasses.fields(measure))]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(first, name, None)
    measure()  # every setting has a default


@every_measure
def test_a_reading_can_be_recorded(measure, net, task, tmp_path):
    reading = small(measure)(net, task)
    record = rs.Record(name="x", setting={}, method={"label": "x"}, seeds={}, readings={})
    record = record.with_reading(small(measure), reading, 0.5)
    again = rs.Record.read(record.write(tmp_path)).read_with(measure.label)
    assert type(again) is type(reading)
    assert again.values == reading.values
    assert again.arrays.keys() == reading.arrays.keys()


def test_labels_are_unique():
    assert MEASURES
    labels = [measure.label for measure in MEASURES]
    assert len(set(labels)) == len(labels)
