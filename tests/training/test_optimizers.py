from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from residua.training import loop

SETTINGS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 5e-4}),
    ("SGD", {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 1e-3, "betas": (0.8, 0.99)}),
]


def trained(kind: type[torch.optim.Optimizer], options: dict[str, object]) -> tuple[list[torch.Tensor], dict]:
    """Weights after thirty steps with a falling rate, a parameter that has no gradient, and a change of hands halfway."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    x, y = torch.randn(40, 5), torch.arange(40) % 3
    groups = [
        {"params": [*net[0].parameters(), nn.Parameter(torch.ones(2))]},
        {"params": net[2].parameters(), "lr": 0.02},
    ]
    optimizer = kind(groups, lr=0.05, **options)
    for step in range(30):
        if step == 15:
            state = optimizer.state_dict()
            optimizer = kind(groups, lr=1.0, **options)
            optimizer.load_state_dict(state)
        for group in optimizer.param_groups:
            group["lr"] *= 0.97
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach() for p in net.parameters()], optimizer.state_dict()


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_weights_are_those_of_torch_to_the_bit(name, options):
    ours, state = trained(getattr(loop, name), options)
    theirs, their_state = trained(getattr(torch.optim, name), options)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert state["param_groups"] == their_state["param_groups"]


def test_training_and_reading_never_load_the_compiler():
    """Its import takes longer than many a measurement."""
    program = """
import sys, torch, residua as rs
from residua.training.loop import SGD
torch.manual_seed(0)
model = rs.Classifier([torch.nn.Linear(3, 4)], torch.nn.Linear(4, 2))
x, y = torch.randn(40, 3), torch.arange(40) % 2
rs.descend(model, [(x, y)], optimizer=SGD(model.parameters(), lr=0.1, momentum=0.9), epochs=1, clip=1.0)
rs.mutual_information(x, y)
rs.mutual_information(torch.randn(90, 3), torch.arange(90) % 3)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
