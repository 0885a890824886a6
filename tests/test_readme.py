"""What README and docs/python.md print runs as printed: on tiny data, with short fits where there would be long ones."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import residua as rs
from conftest import make_arrays
from residua.audits import auditing
from residua.cli import main
from residua.compare.verdicts import WORDS
from residua.data import words as data_words
from residua.measure import InformationCurve
from residua.study import presets

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs/python.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AUDIT = ["--critic-steps", "5", "--critic-rounds", "1", "--last", "1", "--budget", "1s"]
# What makes a command quick; of options that are given twice, the last counts.
QUICKLY = {
    "train": ["--epochs", "1", "--width", "2"],
    "audit": AUDIT,
    "catalogue": ["--method", "Dim", "--no-information", "--seeds", "1", "--jobs", "1"],
}
OWN_NETWORK = """
from collections import OrderedDict
from torch import nn

def make():
    stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
    stage3 = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(OrderedDict(stem=stem, stage3=stage3, head=nn.Linear(8, 10)))
"""


def blocks(text: str, language: str, holding: str) -> list[str]:
    """The blocks of this language that hold this."""
    return [code for kind, code in BLOCK.findall(text) if kind == language and holding in code]


def commands() -> list[list[str]]:
    lines = [line for block in blocks(README, "", "residua ") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("residua ")]


def few(channels: int) -> rs.Dataset:
    """Ten classes of 24 images, which stand in for the real data."""
    train, test = (make_arrays(n, classes=10, channels=channels, seed=n) for n in (240, 60))
    return rs.data.arrays(*train, *test, name="few")


@pytest.fixture
def place(tmp_path, monkeypatch, one_thread, as_if_in_processes, quick_stack) -> Path:
    """A folder with all that README's commands and examples take for granted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(data_words.EMBEDDED, "fashion-sample", lambda: few(1))
    monkeypatch.setitem(data_words.ON_DISK, "cifar10", lambda folder: few(3))
    monkeypatch.setattr(rs.data, "fashion_sample", lambda: few(1))
    monkeypatch.setattr(presets, "pretraining", lambda *_: rs.Pretraining(epochs=1, batch=50, crop=0))
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    monkeypatch.delitem(sys.modules, "mycode", raising=False)
    (tmp_path / "mycode.py").write_text(OWN_NETWORK)
    (tmp_path / "my_method.py").write_text(blocks(README, "python", "# my_method.py")[0])
    (tmp_path / "data").mkdir()
    for seed, name in enumerate(("before", "after", "retrain", "theirs")):
        torch.manual_seed(seed)
        torch.save(own_network().state_dict(), tmp_path / f"{name}.pth")
    random = np.random.default_rng(0)
    for name in "our":
        features = {"block1": random.normal(size=(60, 8)), "labels": np.arange(60) < 20}
        logits = {"forget_logits": random.normal(size=(50, 4)), "test_logits": random.normal(size=(80, 4))}
        np.savez(tmp_path / f"{name}.npz", **features, **logits)
    return tmp_path


def own_network() -> torch.nn.Module:
    namespace: dict = {}
    exec(OWN_NETWORK, namespace)
    return namespace["make"]()


def test_every_command_of_the_readme_runs(place, capsys):
    lines = commands()
    assert {words[1] for words in lines} >= {"train", "unlearn", "audit", "verify", "catalogue", "explain"}
    for words in lines:
        saved = "--outputs" in words
        code = main([*words[1:], *([] if saved else QUICKLY.get(words[1], []))])
        allowed = (0, 1, 2) if words[1] == "audit" else (0,)
        assert code in allowed, (shlex.join(words), capsys.readouterr().err[-2000:])
    for made in ("original.safetensors", "audit/report.json", "dim.safetensors", "catalogue/table.md"):
        assert (place / made).exists(), made


def test_the_examples_of_the_readme_run_as_printed(place, monkeypatch, capsys):
    quick = partial(auditing.audit, curve=InformationCurve(steps=5, rounds=1, last=1), measures=())
    monkeypatch.setattr(rs, "audit", quick)  # first: it is looked up there, and put back as it was
    monkeypatch.setattr(auditing, "audit", quick)
    for seed, name in enumerate(("original", "hd", "retrain")):
        with rs.seeded(seed):
            rs.save(rs.models.resnet18(classes=10, channels=1, width=2), f"{name}.safetensors")
    namespace: dict = {"net": own_network()}
    for example in blocks(README, "python", ""):
        exec(compile(example, "README.md", "exec"), namespace)
    assert capsys.readouterr().out.split()[0] in WORDS
    assert namespace["model"].depth == 2
    with pytest.raises(AssertionError, match=r"[A-Z]+: "):
        namespace["test_the_release_forgot"]()


def test_the_answer_of_the_readme_has_the_words_of_the_program():
    word, sentence = blocks(README, "text", "IDI")[0].splitlines()[:2]
    assert sentence.startswith(WORDS[word])
    assert set(re.findall(r"^\| ([A-Z_]{5,}) \|", README, re.MULTILINE)) == set(WORDS)


def test_what_the_readme_says_of_make_and_pip_is_there():
    makefile = (ROOT / "Makefile").read_text()
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for extra in re.findall(r'"\.\[(\w+)\]"', README):
        assert extra in extras


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
)
def test_links_lead_somewhere(page):
    check_links(ROOT / page)


def test_links_of_the_docs_lead_somewhere():
    for page in (ROOT / "docs").glob("*.md"):
        check_links(page)


def check_links(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert "://" in link or (page.parent / link).exists(), (page.name, link)


def check_what_the_example_did(printed: str, folder: Path) -> None:
    assert "Original" in printed
    assert "'UA': 1.0" in printed.split("Retrain")[1]
    assert (folder / "original.safetensors").exists()


def test_the_python_page_runs_as_printed(place, capsys):
    exec(compile(blocks(PYTHON, "python", "rs.Pretraining")[0], "python.md", "exec"), {})
    check_what_the_example_did(capsys.readouterr().out, place)


@pytest.mark.slow
def test_the_python_page_runs_in_a_new_interpreter_on_all_of_the_data(tmp_path):
    example = blocks(PYTHON, "python", "rs.Pretraining")[0]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_what_the_example_did(done.stdout, tmp_path)
