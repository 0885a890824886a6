"""The working directory may be anybody's: nothing in it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from residua.device import child_command

MODULES = ("multiprocessing", "torch", "numpy", "pickle", "residua", "typer", "sitecustomize", "encodings")


@pytest.fixture
def trap(tmp_path) -> Path:
    """A folder of files with the names of modules, which leave a trace if they are run."""
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    return tmp_path


def test_the_command_imports_nothing_from_the_working_directory(trap):
    command = Path(sys.executable).with_name("residua")
    if not command.exists():
        pytest.skip("the command is not installed beside this Python")
    run = subprocess.run([command, "explain", "methods"], cwd=trap, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not (trap / "ran").exists()


def test_children_import_nothing_from_the_working_directory(trap, monkeypatch):
    monkeypatch.chdir(trap)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", ["", str(trap), *sys.path])
    code = "import multiprocessing, pickle, numpy, residua"
    run = subprocess.run(child_command(code), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not (trap / "ran").exists()


def test_processes_are_started_in_one_way():
    """Every way that starts an interpreter looks in the working directory first; a fork starts none."""
    source = Path(child_command.__code__.co_filename).parent
    other = (
        "multiprocessing",
        "ProcessPoolExecutor",
        "DataLoader",
        "os.system",
        "os.spawn",
        "Popen(",
        "subprocess.run(",
    )
    starting = {
        (path.name, word)
        for path in source.rglob("*.py")
        for word in other
        if word in path.read_text("utf-8").replace("multiprocessing.py", "")
    }
    forks = {("parallel.py", "multiprocessing"), ("parallel.py", "ProcessPoolExecutor")}
    assert starting == {("device.py", "subprocess.run("), ("executors.py", "Popen("), *forks}
    assert 'multiprocessing.get_context("fork")' in (source / "parallel.py").read_text("utf-8")
