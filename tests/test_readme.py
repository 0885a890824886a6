from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import residua as rs

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(after: str, language: str = "") -> str:
    found = re.search(rf"{re.escape(after)}.*?```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"README has no block after {after!r}"
    return found[1]


def test_the_map_equals_the_tree():
    lines = [line for line in block("<!-- map").splitlines()[1:] if line.strip()]
    mapped = [line.split()[0] for line in lines]
    described = [len(line.split()) > 1 for line in lines]
    tree = sorted(
        str(path.relative_to(ROOT / "src/residua")) for path in (ROOT / "src/residua").rglob("*.py")
    )
    assert sorted(mapped) == tree
    assert all(described)


def check_what_the_example_did(said: str, folder: Path) -> None:
    assert "Original" in said
    assert "'UA': 1.0" in said.split("Retrain")[1]
    assert (folder / "original.safetensors").exists()


def test_the_example_runs_as_printed(tmp_path, monkeypatch, capsys, one_thread):
    """On forty images of each class."""
    whole = rs.datasets.fashion_sample()
    few = torch.cat([(whole.train.labels == c).nonzero()[:40, 0] for c in range(10)])
    part = dataclasses.replace(whole, train=whole.train.subset(few))
    monkeypatch.setattr(rs.datasets, "fashion_sample", lambda: part)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("## Ten lines", "python"), "README.md", "exec"), {})
    check_what_the_example_did(capsys.readouterr().out, tmp_path)


@pytest.mark.slow
def test_the_example_runs_in_a_new_interpreter_on_all_of_the_data(tmp_path):
    example = block("## Ten lines", "python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_what_the_example_did(done.stdout, tmp_path)


def test_every_command_of_the_readme_exists():
    from residua.cli import main

    words = {
        tuple(w for w in line.split()[1:3] if w.isalpha())
        for line in block("## On the command line").splitlines()
    }
    for command in words:
        name = command if command[0] == "data" else command[:1]
        assert main([*name, "--help"]) == 0, command
