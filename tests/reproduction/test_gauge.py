"""The gauge: the function stays, and a step turns small weights further than large ones."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import residua as rs
from reproduction.gauge import Gauged, normalised, rescaled
from reproduction.studies import GAUGES
from residua.models.networks import build
from residua.unlearn import Original


@pytest.fixture(scope="module")
def model():
    with rs.seeded(0):
        net = build(network="resnet18", classes=10, channels=1, width=8, stem="imagenet").train()
        with torch.no_grad():
            for _ in range(3):  # running statistics that are not those of a fresh network
                net(torch.randn(32, 1, 28, 28))
    return net.eval()


@pytest.fixture
def images():
    with rs.seeded(1):
        return torch.randn(16, 1, 28, 28)


def test_every_convolution_of_a_resnet_has_its_norm(model):
    assert len(list(normalised(model))) == sum(isinstance(part, nn.Conv2d) for part in model.modules()) == 20


@pytest.mark.parametrize("factor", GAUGES)
def test_a_rescaled_model_is_the_same_function_in_both_modes(model, images, factor):
    other = rescaled(model, factor)
    ratio = (other.blocks[0][0].weight.norm() / model.blocks[0][0].weight.norm()).detach()
    assert float(ratio) == pytest.approx(factor)
    with torch.no_grad():
        assert torch.allclose(other(images), model(images), atol=1e-5)
        assert torch.allclose(rs.clone(other).train()(images), rs.clone(model).train()(images), atol=1e-4)


def test_a_step_turns_weights_of_a_tenth_a_hundred_times_as_far(model, images):
    turned = []
    for factor in (1.0, 0.1):
        net = rescaled(model, factor).train()
        convolution, _ = next(normalised(net))
        before = convolution.weight.detach().clone()
        F.cross_entropy(net(images), torch.zeros(len(images), dtype=torch.long)).backward()
        turned.append(float((1e-4 * convolution.weight.grad).norm() / before.norm()))
    assert turned[1] / turned[0] == pytest.approx(100, rel=0.01)


def test_gauged_scales_back(model, images):
    made = Gauged(0.1, Original())(model, None)
    assert torch.allclose(made.blocks[0][0].weight, model.blocks[0][0].weight, rtol=1e-5)
    assert Gauged(0.1, Original()).label == "Original x 0.1"
    with torch.no_grad():
        assert torch.allclose(made(images), model(images), atol=1e-5)
