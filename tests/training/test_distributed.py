"""Two processes with gloo on the CPU, as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import residua as rs
from residua.cli import main

SCRIPT = """
import os, sys
import torch
import residua as rs
from residua.training import distributed
from residua.training.keeping import kept_at
sys.path.insert(0, {tests!r})
from conftest import make_arrays

torch.set_num_threads(1)
network, out, dies = sys.argv[1], sys.argv[2], sys.argv[3] == "dies"
data = rs.data.arrays(*make_arrays(100, seed=0), *make_arrays(40, seed=1), name="levels")
shape = dict(image=8, variant="micro", patch=4) if network == "vit" else dict(width=8)
training = rs.Pretraining(epochs=3, batch=30, lr=0.02, crop=1, precision="float32")

def watch(tick):
    if dies and tick.epoch == 2 and tick.epoch_done:
        os._exit(9)

from residua.training.loop import watching
with rs.seeded(0), distributed.joined(torch.device("cpu")) as leads, kept_at(__import__("pathlib").Path(out + ".part.safetensors"), every=0.0), watching(watch):
    model = training(rs.models.build(network, classes=4, channels=1, **shape), data.train)
    if leads:
        rs.save(model, out)
"""


@pytest.fixture
def run(tmp_path):
    """Train in some processes, and the trained model; None where they ended otherwise."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1])))

    def start(processes: int, network: str = "vit", name: str = "model", dies: str = "lives"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        out = tmp_path / f"{name}.safetensors"
        shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
        shared |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, str(script), network, str(out), dies]
        started = [
            subprocess.Popen(words, env=shared | {"RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(processes)
        ]
        codes = [each.wait(timeout=600) for each in started]
        return rs.load(out) if codes == [0] * processes else None

    return start


def furthest(one: rs.Classifier, other: rs.Classifier) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.slow
def test_two_processes_train_the_model_of_one_and_resume_after_a_kill(run):
    alone, together = run(1, name="alone"), run(2, name="together")
    assert furthest(alone, together) < 1e-4
    with rs.seeded(1):
        other = rs.models.build("vit", classes=4, channels=1, image=8, variant="micro", patch=4)
    assert furthest(alone, other) > 1e-2  # a model that was trained otherwise is further away
    assert run(2, name="resumed", dies="dies") is None
    assert furthest(run(2, name="resumed"), together) < 1e-6


@pytest.mark.slow
def test_batch_norm_sees_its_own_part_of_a_batch_and_all_have_the_first_ones_statistics(run):
    alone, together = run(1, "resnet18", "alone"), run(2, "resnet18", "together")
    assert 1e-4 < furthest(alone, together) < 1.0
    assert all(torch.isfinite(tensor).all() for tensor in together.state_dict().values())


def test_commands_that_are_one_process_refuse_torchrun(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["study", "status", "nowhere"]) == 3
    assert "leave torchrun out" in capsys.readouterr().err


def test_a_part_takes_every_nth_sample_and_all_parts_are_the_whole():
    from residua.data.split import Part

    samples = torch.arange(7)
    assert sorted(torch.cat([Part(r, 3)(samples) for r in range(3)]).tolist()) == list(range(7))
    assert Part(1, 8)(samples).tolist() == list(range(7))
