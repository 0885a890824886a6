"""The make of a network, what nothing uses in it, and answers that depend on how one asks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.measure import Structure
from residua.measure.structure import canonical_form
from residua.models.classifier import Classifier, clone

pytestmark = pytest.mark.usefixtures("one_thread")


def network(**more: nn.Module) -> Classifier:
    with rs.seeded(0):
        blocks = [
            nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()),
            nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        ]
        return Classifier(
            [*blocks, *more.get("blocks", [])], more.get("head", nn.Linear(8, 4)),
            pool=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        ).eval()  # fmt: skip


def test_a_plain_network_is_consistent_and_its_own_likeness(task):
    found, again = (Structure()(each, task) for each in (network(), network()))
    assert found.values["inconsistency"] < 1e-4
    assert found.values["dead"] == 0
    assert np.array_equal(found.arrays["digest"], again.arrays["digest"])
    assert not found.arrays["linear"].any()
    assert not found.arrays["weightless"].any()
    assert not found.arrays["headless"][0]
    wider = network(blocks=[nn.Conv2d(8, 8, 1)])
    assert not np.array_equal(Structure()(wider, task).arrays["digest"], found.arrays["digest"])


def test_channels_that_are_switched_off_are_counted(task):
    model = network()
    model.blocks[0][1].bias.data[:3] = -1e3
    # Images, six channels into each of two layers and out of the first block, eight into the second norm and out, and the head's.
    channels = 1 + 6 + 6 + 6 + 8 + 8 + 8
    assert Structure()(model, task).values["dead"] == pytest.approx(6 / channels)


def test_channels_that_only_padding_varies_are_switched_off_too(task):
    model = network()
    model.blocks[0][1].weight.data.zero_()
    model.blocks[0][1].bias.data.fill_(1.0)
    # Only the image and what enters the first norm vary from image to image.
    assert Structure()(model, task).values["dead"] == pytest.approx(1 - (1 + 6) / 43)


class Sly(nn.Module):
    """Answers otherwise in a batch, or outside of inference mode, or the second time."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.times = way, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.times += 1
        sly = {"batch": len(x) > 1, "mode": torch.is_inference_mode_enabled(), "time": self.times % 2 == 0}[self.way]
        return x * 1.1 if sly else x


@pytest.mark.parametrize("way", ["batch", "mode", "time"])
def test_answers_that_depend_on_the_asking_are_noticed(task, way):
    assert Structure()(network(blocks=[Sly(way)]), task).values["inconsistency"] > 0.01


def test_linear_blocks_blocks_without_weights_and_cuts_behind_the_logits_are_told(task):
    with rs.seeded(1):
        model = network(blocks=[nn.Conv2d(8, 4, 1), nn.ReLU()], head=nn.Identity())
    found = Structure()(model, task)
    assert found.arrays["linear"].tolist() == [False, False, True, False]
    assert found.arrays["weightless"].tolist() == [False, False, False, True]
    assert found.arrays["headless"][0]
    assert found.arrays["own_code"][0] == 0
    assert Structure()(network(blocks=[Sly("time")]), task).arrays["own_code"][0] == 1


def test_the_canonical_form_keeps_the_function_and_nothing_that_no_input_uses(task):
    model = network()
    model.blocks[0][1].bias.data[:3] = -1e3
    released = canonical_form(model, task)
    assert Structure()(released, task).arrays["canonical"][0]
    assert not Structure()(model, task).arrays["canonical"][0]
    assert released.blocks[1][0].weight[:, :3].abs().sum() == 0
    assert released.blocks[1][0].weight[:, 3:].abs().sum() > 0
    x = torch.cat([x for x, _ in task.forget.batches(100)])
    assert (released(x) - model(x)).abs().max() < 0.05 * model(x).std()
    # A bit of every weight that holds a message is gone.
    marked = clone(model)
    for weight in marked.parameters():
        weight.data.view(torch.int32).bitwise_xor_(1)
    assert rs.models.classifier.weights_digest(canonical_form(marked, task)) == rs.models.classifier.weights_digest(
        released
    )
