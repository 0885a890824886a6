"""Promises of every way to unlearn; a new one is tested here as soon as METHODS names it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from quick_settings import PRETRAINING, small
from torch import nn

import residua as rs
from conftest import make_arrays
from residua.data.split import MemoryImages
from residua.models.classifier import weights_digest
from residua.record import describe
from residua.unlearn import METHODS, Original, Random, Retrain, traits

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def original(net) -> rs.Classifier:
    """Weights and statistics that no initialisation would draw, in a state that a method might disturb."""
    with rs.seeded(7), torch.no_grad():
        for tensor in net.state_dict().values():
            if tensor.is_floating_point():
                # Matrices around 0, or activations would fly off; variances above 0.
                tensor.uniform_(-0.3, 0.3) if tensor.ndim > 1 else tensor.uniform_(0.5, 1.5)
            else:
                tensor.fill_(33)
    rs.freeze(net.blocks[1])
    net.train()
    net.head.weight.grad = torch.full_like(net.head.weight, 3.0)
    return net


@pytest.fixture(params=["class", "random"])
def request_to_forget(request, data, task) -> rs.ForgetTask:
    return task if request.param == "class" else rs.forget_samples(data, 10, seed=1)


every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)


def state(model: nn.Module) -> dict:
    return {
        "weights": weights_digest(model),
        "modes": [part.training for part in model.modules()],
        "trainable": [p.requires_grad for p in model.parameters()],
        "gradients": [None if p.grad is None else p.grad.tolist() for p in model.parameters()],
    }


@every_method
def test_the_original_is_untouched_and_the_result_is_a_model_of_its_own(method, original, request_to_forget):
    before = state(original)
    if request_to_forget.scenario not in traits(method).scenarios:
        with pytest.raises(rs.InputError, match=f"{method.label} cannot forget"):
            method(original, request_to_forget)
        return
    with rs.seeded(1):
        result = small(method)(original, request_to_forget)
    assert state(original) == before

    assert type(result) is rs.Classifier
    assert result is not original
    assert result.architecture == original.architecture
    assert result.block_names == original.block_names
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in result.state_dict().items()}
    assert shapes == {name: (tensor.shape, tensor.dtype) for name, tensor in original.state_dict().items()}
    assert all(torch.isfinite(tensor).all() for tensor in result.state_dict().values())
    assert not any(part.training for part in result.modules())
    assert all(p.requires_grad for p in result.parameters())
    assert all(part.training for part in result.train().modules())
    places = [{tensor.untyped_storage().data_ptr() for tensor in m.state_dict().values()} for m in (original, result)]
    assert not places[0] & places[1]


@every_method
def test_the_same_seed_gives_the_same_weights(method, original, task):
    found = []
    for seed in (1, 1):
        with rs.seeded(seed):
            found.append(weights_digest(small(method)(original, task)))
    assert found[0] == found[1]


@every_method
def test_the_result_can_be_saved_and_measured(method, original, task, tmp_path):
    with rs.seeded(1):
        result = small(method)(original, task)
    rs.save(result, tmp_path / "m.safetensors")
    assert weights_digest(rs.load(tmp_path / "m.safetensors")) == weights_digest(result)


@every_method
def test_a_method_is_its_settings(method):
    first, second = small(method), small(method)
    assert dataclasses.is_dataclass(type(method))
    assert type(method).__dataclass_params__.frozen
    assert first == second
    assert hash(first) == hash(second)
    assert describe(first) == describe(second)
    assert describe(first)["kind"] == type(method).__name__
    assert json.loads(json.dumps(describe(first)))["label"] == method.label
    for field in dataclasses.fields(method):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(first, field.name, None)
    with pytest.raises(AttributeError):
        first.label = "mine"
    type(method)()  # every setting has a default


def test_no_two_methods_share_a_label():
    labels = [method.label.lower() for method in METHODS]
    assert len(labels) > 20
    assert len(set(labels)) == len(labels)


# --- Original, Random, Retrain --------------------------------------------------------------------


def test_original_is_the_original_to_the_last_bit(original, request_to_forget):
    assert weights_digest(Original()(original, request_to_forget)) == weights_digest(original)


def test_random_keeps_no_weight_and_no_statistic(original, task):
    with rs.seeded(1):
        result = Random()(original, task)
    with rs.seeded(2):
        other = Random()(original, task)
    convolutions = 0
    for ours, theirs, again in zip(result.modules(), original.modules(), other.modules(), strict=True):
        if isinstance(ours, nn.Conv2d | nn.Linear):
            convolutions += isinstance(ours, nn.Conv2d)
            assert not (ours.weight == theirs.weight).any()
            assert not torch.equal(ours.weight, again.weight)
        elif isinstance(ours, nn.BatchNorm2d):
            assert (ours.running_mean == 0).all()
            assert (ours.running_var == 1).all()
            assert int(ours.num_batches_tracked) == 0
    assert convolutions == 20


@pytest.mark.parametrize("method", [m for m in METHODS if traits(m).from_scratch], ids=lambda m: m.label)
def test_nothing_of_the_original_weights_is_left(method, original, task):
    blank = rs.models.resnet18(classes=4, channels=1, width=2)
    found = []
    for start in (original, blank):
        with rs.seeded(1):
            found.append(weights_digest(small(method)(start, task)))
    assert found[0] == found[1]


def test_retrain_never_draws_a_forgotten_image(original, request_to_forget, monkeypatch):
    drawn = set()
    real = MemoryImages.stream

    def spy(self, batches, device):
        listed = list(batches)
        drawn.update(i for batch in listed for i in batch.tolist())
        return real(self, listed, device)

    monkeypatch.setattr(MemoryImages, "stream", spy)
    small(Retrain)(original, request_to_forget)
    assert not drawn & set(request_to_forget.forget.index.tolist())
    assert len(drawn) >= len(request_to_forget.retain) - PRETRAINING.batch
    assert drawn <= set(request_to_forget.retain.index.tolist())


def test_retrain_is_the_same_whatever_was_forgotten(original):
    """Other pixels in the forget set, nothing else: not a bit of the result may change."""
    images, labels = make_arrays(240)
    found = []
    for fill in (0, 255):
        planted = np.where((labels == 2)[:, None, None, None], np.uint8(fill), images)
        data = rs.data.arrays(planted, labels, images, labels, mean=[0.5], std=[0.25])
        with rs.seeded(1):
            found.append(weights_digest(small(Retrain)(original, rs.forget_classes(data, 2))))
    assert found[0] == found[1]


def test_retrain_is_trained(original, task):
    with rs.seeded(1):
        result = small(Retrain)(original, task)
    with rs.seeded(1):
        drawn = Random()(original, task)
    assert int(result.blocks[0][1].num_batches_tracked) == len(task.retain) // PRETRAINING.batch
    for ours, theirs in zip(result.parameters(), drawn.parameters(), strict=True):
        assert not torch.equal(ours, theirs)
