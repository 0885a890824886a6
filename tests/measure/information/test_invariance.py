"""A model whose blocks are written down in other coordinates knows what it knew."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import residua as rs
from residua.measure._outputs import logits
from residua.models.classifier import Classifier, clone

pytestmark = pytest.mark.usefixtures("one_thread")
CURVE = rs.measure.InformationCurve(steps=20, rounds=2)


class Mixed(nn.Module):
    """Channels multiplied by a matrix."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.float())

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("nchw,dc->ndhw", x, self.matrix)

    def reset_parameters(self) -> None:
        """A critic with new weights keeps the matrix: it has no weights."""


def matrix(width: int, condition: float, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64))[0] for _ in range(2)
    )
    return left * torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), width).double() @ right


def rewritten(model: Classifier, block: int, by: Tensor) -> Classifier:
    """The same function: block `block` is multiplied by a matrix, and the next block or the head undoes it."""
    model, back = clone(model), torch.linalg.inv(by)
    blocks = list(model.blocks)
    blocks[block - 1] = nn.Sequential(blocks[block - 1], Mixed(by))
    if block == len(blocks):
        model.head.weight.data = (model.head.weight.data.double() @ back).float()
    else:
        unit = blocks[block][0]
        for conv in (unit.conv1, unit.shortcut[0]):
            weight = torch.einsum("ochw,cd->odhw", conv.weight.data.double(), back)
            conv.weight.data = weight.float().contiguous()
    return Classifier(blocks, model.head, pool=model.pool, architecture=model.architecture).eval()


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
        models["original"] = training(rs.networks.resnet18(classes=10, channels=1, width=8), task.train)
    return models


@pytest.fixture(scope="module")
def curves(models, task) -> dict[str, rs.Reading]:
    return {name: CURVE(model, task) for name, model in models.items()}


@pytest.mark.parametrize(
    ("block", "by"),
    [
        (4, 1e-3 * torch.eye(32, dtype=torch.float64)),
        (4, 1e3 * torch.eye(32, dtype=torch.float64)),
        (4, matrix(32, 1e4, 1)),
        (5, matrix(64, 1e4, 2)),
        (5, matrix(64, 1.0, 3)),
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
