"""A model whose blocks are written down in other coordinates knows what it knew."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from rewriting import mixing, rewritten

import residua as rs
from residua.measure._outputs import logits
from residua.models.classifier import Classifier

pytestmark = pytest.mark.usefixtures("one_thread")
CURVE = rs.measure.InformationCurve(steps=20, rounds=2)


@pytest.fixture(scope="module")
def task() -> rs.ForgetTask:
    whole = rs.forget_classes(rs.data.fashion_sample(), 6)
    return rs.ForgetTask(
        "some of it",
        "class",
        whole.forgotten,
        whole.forget.subset(torch.arange(200)),
        whole.retain.subset(torch.arange(800)),
        whole.test.subset(torch.arange(100)),
        whole.forget_test.subset(torch.arange(50)),
    )


@pytest.fixture(scope="module")
def models(task) -> dict[str, Classifier]:
    training = rs.Pretraining(epochs=2, batch=32, lr=0.1, crop=0)
    models = {}
    with rs.seeded(1):
        models["original"] = training(rs.models.resnet18(classes=10, channels=1, width=8), task.train)
    return models


@pytest.fixture(scope="module")
def curves(models, task) -> dict[str, rs.Reading]:
    return {name: CURVE(model, task) for name, model in models.items()}


@pytest.mark.parametrize(
    ("block", "by"),
    [
        (4, 1e-3 * torch.eye(32, dtype=torch.float64)),
        (4, 1e3 * torch.eye(32, dtype=torch.float64)),
        (4, mixing(32, 1e4, 1)),
        (5, mixing(64, 1e4, 2)),
        (5, mixing(64, 1.0, 3)),
    ],
    ids=["block 4 smaller", "block 4 larger", "block 4 mixed", "block 5 mixed", "block 5 rotated"],
)
def test_a_model_in_other_coordinates_has_the_idi_of_the_model_it_came_from(models, curves, task, block, by):
    model = rewritten(models["original"], block, by)
    outputs = [logits(m, task.test) for m in (model, models["original"])]
    assert (outputs[0] - outputs[1]).abs().max() < 5e-3  # float32, and a condition number of 1e4
    curve = CURVE(model, task)
    for one, value in curve.information.items():
        assert value == pytest.approx(curves["original"].information[one], abs=0.01)
    silent = {"terms": np.zeros_like(curve.arrays["terms"])}
    nothing = dataclasses.replace(curve, arrays=curve.arrays | silent)  # a reference that knows nothing
    index = rs.compare.idi(curve, original=curves["original"], reference=nothing)
    assert index.value == pytest.approx(1.0, abs=0.05)


def test_what_cannot_be_undone_is_refused(models):
    with pytest.raises(rs.InputError, match="before a stage of a ResNet"):
        rewritten(models["original"], 1, torch.eye(8, dtype=torch.float64))
