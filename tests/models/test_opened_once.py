"""An audit reads each checkpoint once: hash, header and weights are of the same bytes."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import safetensors
import torch

import residua as rs
from residua.cli import main

pytestmark = pytest.mark.usefixtures("one_thread")
OPENED: Counter[str] = Counter()


def count(event: str, arguments: tuple[object, ...]) -> None:
    """Count the files of models that Python opens, by whatever function."""
    if event == "open" and str(arguments[0]).endswith((".safetensors", ".pth")):
        OPENED[Path(str(arguments[0])).name] += 1


sys.addaudithook(count)


@pytest.fixture
def opened(monkeypatch) -> Counter[str]:
    """The number of times that each file of a model is opened, also by safetensors, which Python does not see."""
    other = safetensors.safe_open

    def safe_open(path, *more, **options):
        OPENED[Path(path).name] += 1
        return other(path, *more, **options)

    monkeypatch.setattr(safetensors, "safe_open", safe_open)
    return OPENED


def test_an_audit_opens_each_checkpoint_once(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("original", "unlearned", "reference")
    for seed, name in enumerate(names):
        torch.manual_seed(seed)
        rs.save(rs.models.resnet18(width=1, channels=1), f"{name}.safetensors")
    opened.clear()
    files = [word for name in names for word in (f"--{name}", f"{name}.safetensors")]
    task = ["--data", "fashion-sample?part=0.05", "--forget", "class:6", "--device", "cpu"]
    quick = ["--last", "1", "--family", "linear", "--budget", "1s", "--out", "audit"]
    assert main(["audit", *files, *task, *quick]) in (0, 1, 2)
    assert opened == {f"{name}.safetensors": 1 for name in names}
    typed = json.loads(Path("audit/report.json").read_text())
    hashes = {hashlib.sha256(Path(f"{name}.safetensors").read_bytes()).hexdigest() for name in names}
    assert all(hash in json.dumps(typed) for hash in hashes)


def test_a_pickle_is_opened_once_and_not_by_pytorch(opened, tmp_path, monkeypatch):
    torch.save(rs.models.resnet18(width=1, channels=1).state_dict(), tmp_path / "w.pth")
    monkeypatch.setattr(torch, "load", lambda *words, **more: pytest.fail("PyTorch was asked"))
    opened.clear()
    rs.load(tmp_path / "w.pth", "resnet18")
    assert opened["w.pth"] == 1
