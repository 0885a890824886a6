"""Every metric is a finite number, or is left out with the reason, on the models and tasks that hurt."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import residua as rs
from conftest import make_arrays
from residua.compare import metrics
from residua.measure import MEASURES

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = {"epochs": 1, "steps": 2, "rounds": 1, "most": 40, "repeats": 1}
FORGOTTEN = 2


def quick(measure):
    own = {field.name for field in dataclasses.fields(measure)}
    return measure(**{name: value for name, value in QUICK.items() if name in own})


def collapsed(net: rs.Classifier) -> rs.Classifier:
    """Says class 1 always: dead weights everywhere."""
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
        net.head.bias[1] = 5.0
    return net


def saturated(net: rs.Classifier) -> rs.Classifier:
    """Logits of +-1e4."""
    with torch.no_grad():
        net.head.weight.copy_(torch.randn_like(net.head.weight).sign() * 1e4)
        x, _ = next(iter(SOME.batches(64)))
        net.head.weight *= 1e4 / net(x).abs().mean()
        assert net(x).abs().max() > 1e4
    return net


SOME = rs.data.arrays(*make_arrays(64), *make_arrays(8)).train
MODELS = {"ordinary": lambda net: net, "collapsed": collapsed, "saturated": saturated}


def only(n: int, *, without: int | None = None) -> rs.Dataset:
    images, labels = make_arrays(240, seed=0)
    test_images, test_labels = make_arrays(80, seed=1)
    kept = test_labels != without
    return rs.data.arrays(images, labels, test_images[kept], test_labels[kept], name="levels")


TASKS = {
    "a class": lambda: rs.forget_classes(only(0), FORGOTTEN),
    "one forget sample": lambda: rs.forget_indices(only(0), [17]),
    "a class of which no test image is left": lambda: rs.forget_classes(only(0, without=FORGOTTEN), FORGOTTEN),
    "no test image of a retained class": lambda: rs.forget_classes(only(0, without=3), FORGOTTEN),
}

# What may be missing, and where; everything else must be a number.
EXPECTED_NOTES = {
    "FTA": {"one forget sample", "a class of which no test image is left"},
    "AUS": {"a class of which no test image is left"},
    "recovery": {"one forget sample", "a class of which no test image is left"},
}


@pytest.mark.parametrize(
    ("model", "task"),
    [
        *((model, "a class") for model in MODELS),
        *(("ordinary", task) for task in list(TASKS)[1:]),
        ("collapsed", "one forget sample"),
    ],
)
def test_values_are_finite_or_say_why_not(net, model, task):
    audited = MODELS[model](net)
    with rs.seeded(9):
        other = rs.reinitialise(rs.clone(net))
    request = TASKS[task]()
    impossible = {"information", "moved"} if task == "one forget sample" else set()
    read = {
        name: {measure.label: quick(measure)(each, request) for measure in MEASURES if measure.label not in impossible}
        for name, each in (("model", audited), ("other", other))
    }
    for label in impossible:
        with pytest.raises(rs.InputError, match="only one label"):
            rs.measure.measures()[label]()(audited, request)
    found = metrics(read["model"], original=read["other"], reference=read["other"])
    assert {"UA", "RA", "TA", "JSD", "ZRF", "recovery.test", "weight_distance.original"} <= found.values.keys()
    for name, value in found.values.items():
        assert math.isfinite(value), name
    for readings in read.values():
        for reading in readings.values():
            for name, array in reading.arrays.items():
                assert np.isfinite(array[~np.isinf(array)] if name.endswith("fpr") else array).all(), name
            assert not set(reading.notes) & set(reading.values)
    assert all(len(why) > 20 for why in found.notes.values())
    for name, tasks in EXPECTED_NOTES.items():
        assert (name in found.notes) == (task in tasks), name
        assert (name in found.values) == (task not in tasks), name
