from __future__ import annotations

import pytest
import torch
from torch import nn

import residua as rs
from residua.measure import _outputs as outputs
from residua.measure._outputs import logits
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")


class Brightness(nn.Module):
    """One number an image: its mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(1, 2, 3))[:, None]


@pytest.fixture
def bright() -> rs.Classifier:
    """Logits that are the image's mean brightness times 1, 2, 3, 4."""
    head = nn.Linear(1, 4, bias=False)
    nn.init.zeros_(head.weight)
    head.weight.data[:, 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return rs.Classifier([Brightness()], head)


@pytest.mark.parametrize("batch", [1, 7, 240, 1000])
def test_logits_come_in_the_order_of_the_split(bright, data, monkeypatch, batch):
    monkeypatch.setattr(outputs, "ON_CPU", batch)
    order = torch.randperm(240, generator=torch.Generator().manual_seed(0))
    split = data.train.subset(order)
    pixels = data.train.images.pixels[order].double().mean(dim=(1, 2, 3)) / 255
    expected = (pixels - data.train.mean[0]) / data.train.std[0]
    found = logits(bright, split)
    assert found.shape == (240, 4)
    assert found.dtype is torch.float32
    assert not found.requires_grad
    torch.testing.assert_close(found.double(), expected[:, None] * torch.tensor([1.0, 2, 3, 4]), atol=1e-5, rtol=0)


def test_the_size_of_a_batch_does_not_matter(net, data, monkeypatch):
    whole = logits(net, data.test)
    monkeypatch.setattr(outputs, "ON_CPU", 7)
    torch.testing.assert_close(logits(net, data.test), whole, atol=1e-5, rtol=1e-4)


def test_an_empty_split_gives_no_rows_of_all_classes(net, data):
    assert logits(net, data.test.subset(torch.arange(0))).shape == (0, 4)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_read_in_eval_mode_and_keeps_its_own(net, data, training):
    expected = logits(net.eval(), data.test)
    before = weights_digest(net)
    rs.freeze(net.blocks[1])
    net.train(training)
    modes = [part.training for part in net.modules()]
    assert torch.equal(logits(net, data.test), expected)
    assert [part.training for part in net.modules()] == modes
    assert weights_digest(net) == before


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("training", [True, False])
def test_outputs_that_are_no_numbers_are_refused(net, data, bad, training):
    net.head.bias.data[2] = bad
    net.train(training)
    with pytest.raises(rs.InputError, match="not finite numbers"):
        logits(net, data.test)
    assert net.training is training


def test_the_mode_is_kept_when_the_network_fails(bright, data):
    bright.train()
    bright.head = nn.Linear(3, 4)
    with pytest.raises(RuntimeError):
        logits(bright, data.test)
    assert bright.training


def test_readings_are_float32_unless_asked_otherwise(net, data, monkeypatch):
    asked = []
    real = outputs.autocast

    def spy(precision, device):
        asked.append(precision)
        return real("float32", device)

    monkeypatch.setattr(outputs, "autocast", spy)
    logits(net, data.test)
    logits(net, data.test, precision="auto")
    assert asked == ["float32", "auto"]
