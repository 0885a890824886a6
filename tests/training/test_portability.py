"""Gradients are right, and nothing is overwritten, on processors with and without AVX-512."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import residua as rs
from residua.device import keeps_channels_last, safe_kernels
from residua.training import loop

# Trains networks of width 1 to 16 as `descend` does, and compares their gradients with contiguous ones computed
# without oneDNN. A write past a workspace is found by the C library (MALLOC_CHECK_) or as a wrong gradient.
CHILD = """
import sys, copy, torch, residua as rs
from residua.device import safe_kernels
from residua.training.loop import descend
torch.set_num_threads(int(sys.argv[1]))
# Where a ReLU is at its kink, the last digit of its input decides about a whole gradient.
torch.nn.functional.relu = lambda x, inplace=False: torch.nn.functional.softplus(x)
for width in range(1, 17):
    for channels in (1, 3):
        torch.manual_seed(width)
        net = rs.models.resnet18(classes=4, channels=channels, width=width).train()
        plain = copy.deepcopy(net)
        x, y = torch.randn(8, channels, 16, 16), torch.arange(8) % 4
        x = x.contiguous(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        seen = {}
        def keep():
            seen.update({name: p.grad.clone() for name, p in net.named_parameters()})
        descend(net, [(x, y)], optimizer=optimizer, epochs=3, precision="float32", after_step=keep)
        torch.backends.mkldnn.set_flags(False, None, None, None)
        torch.nn.functional.cross_entropy(plain(x.contiguous()), y).backward()
        torch.backends.mkldnn.set_flags(True, None, None, None)
        for name, p in plain.named_parameters():
            far = float((seen[name] - p.grad).abs().max()) / max(1.0, float(p.grad.abs().max()))
            assert far <= 1e-5, (width, channels, name, far)
print("equal")
"""


@pytest.mark.parametrize(
    ("isa", "threads"),
    [
        ("AVX2", "1"),
        (None, "1"),
        pytest.param("AVX2", "2", marks=pytest.mark.slow),
        pytest.param(None, "2", marks=pytest.mark.slow),
    ],
)
def test_gradients_of_narrow_networks_are_right_and_in_bounds(isa, threads):
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    environment |= {"MALLOC_CHECK_": "3"} | ({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})
    done = subprocess.run([sys.executable, "-c", CHILD, threads], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "equal"


@pytest.mark.parametrize(("width", "kept"), [(1, False), (7, False), (8, True), (16, True)])
def test_only_networks_that_reach_the_faulty_kernel_are_kept_out_of_it(width, kept):
    net = rs.models.resnet18(classes=4, channels=1, width=width)
    assert keeps_channels_last(net) is kept
    with safe_kernels(net):
        assert torch._C._get_mkldnn_enabled() is kept
    assert torch._C._get_mkldnn_enabled()


@pytest.mark.parametrize(
    ("layer", "kept"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), False),
        (nn.Conv2d(16, 32, 1, stride=(1, 2), groups=4), False),
        (nn.Conv2d(4, 8, 3, stride=2), True),
        (nn.Conv2d(4, 8, 1), True),
        (nn.Linear(4, 8), True),
        (nn.ReLU(), True),
    ],
)
def test_anybody_s_layers_are_looked_at(layer, kept):
    assert keeps_channels_last(nn.Sequential(nn.Flatten(0, 0), layer)) is kept


class Short:
    """Announces forty batches and stops after `there`, as relearning does when it has seen enough."""

    def __init__(self, there: int) -> None:
        self.there = there

    def __len__(self) -> int:
        return 40

    def __iter__(self):
        return iter([(torch.ones(2, 3), torch.tensor([0, 1]))] * self.there)


@pytest.mark.parametrize("there", [1, 19, 20, 21])
def test_a_source_that_stops_early_has_a_loss_on_devices_that_read_it_rarely(monkeypatch, there):
    monkeypatch.setattr(loop, "reads_loss", lambda device, step: step % 20 == 0)
    net = nn.Linear(3, 2)
    history = loop.descend(net, Short(there), optimizer=torch.optim.SGD(net.parameters(), lr=0.0), epochs=2)
    expected = float(nn.functional.cross_entropy(net(torch.ones(2, 3)), torch.tensor([0, 1])).detach())
    assert history == pytest.approx([expected, expected])


def test_a_loss_that_diverges_between_two_looks_is_noticed_at_the_end(monkeypatch):
    monkeypatch.setattr(loop, "reads_loss", lambda device, step: False)
    net = nn.Linear(3, 2)
    with pytest.raises(rs.InputError, match="the loss is nan at epoch 1, step 3"):
        loop.descend(
            net,
            Short(3),
            lambda model, x, y: model(x).sum() * torch.nan,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.0),
            epochs=1,
        )


def test_the_cpu_reads_the_loss_at_every_step_and_a_gpu_now_and_then():
    assert all(loop.reads_loss(torch.device("cpu"), step) for step in range(1, 41))
    assert [step for step in range(1, 41) if loop.reads_loss(torch.device("cuda"), step)] == [20, 40]
