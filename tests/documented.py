"""Code blocks of README and docs/: found, run on tiny data with short fits, or parsed where they cannot run here.

A page's blocks run in its order, in one folder and one namespace. A Python block that begins with `# name.py` is a file
of that name. Blocks of the language `sh` hold commands. `<!-- not run: why -->` above a block says that it needs what
is not here; its Python is then compiled, and its commands are parsed by the program's own parser.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import residua as rs
from conftest import make_arrays
from residua import plugins
from residua.audits import auditing
from residua.cli import COMMANDS, loaded, main
from residua.cli import audit as audit_command
from residua.compare.verdicts import WORDS
from residua.data import parsing as data_words
from residua.measure import InformationCurve
from residua.study import presets

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"\A# (\w+\.py)\n")

CRITICS = ["--critic-steps", "5", "--critic-rounds", "1", "--restarts", "1", "--folds", "2"]
INSIDE = [*CRITICS, "--last", "1", "--family", "linear"]
# What makes a command quick; of options that are given twice, the last counts.
QUICKLY = {
    "train": ["--epochs", "1", "--width", "2"],
    "audit": [*INSIDE, "--budget", "1s"],
    "study run": ["--jobs", "1", "--seeds", "1", "--method", "COLA"],
    "study plan": ["--seeds", "1", "--method", "COLA"],
    "tune": ["--trials", "1", "--jobs", "1", "--epochs", "1"],
}
# Where a network of a library is trained, its width is its own.
OF_A_LIBRARY = {"train": ["--epochs", "1"]}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what is in it, and why it is not run, if it is not."""

    language: str
    code: str
    not_run: str

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        named = FILE.match(self.code) if self.language == "python" else None
        return named[1] if named else None


def blocks_of(page: Path) -> list[Block]:
    return [Block(language, code, why) for why, language, code in BLOCK.findall(page.read_text("utf-8"))]


def block_of(page: Path, file: str) -> str:
    """The block that is this file."""
    return next(block.code for block in blocks_of(page) if block.file == file)


def lines_of(code: str) -> list[str]:
    """Commands, those that go on in the next line in one piece."""
    return re.sub(r" *\\\n *", " ", code).splitlines()


def commands_in(code: str) -> Iterator[list[str]]:
    """The words of every `residua` command, also of one that another command wraps in quotes."""
    for line in lines_of(code):
        if line.startswith("residua "):
            yield shlex.split(line, comments=True)
        elif wrapped := re.search(r'"(residua [^"]+)"', line):
            yield shlex.split(wrapped[1])


def name_of(words: list[str]) -> str:
    """`audit`, or `study run`."""
    inner = hasattr(loaded(words[1]), "commands")
    return " ".join(words[1:3] if inner else words[1:2])


def parse(words: list[str]) -> None:
    """The verdict of the program's own parser on a command line: an error if an option or a value is not one."""
    with plugins.using([]):
        assert words[1] in COMMANDS, f"residua has no command {words[1]}"
        command, rest = loaded(words[1], words[2:]), words[2:]
        if hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(words[1], list(rest))


def check_other(line: str) -> None:
    """A command that is not ours: what it names is there."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["make"]:
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), line
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
        asked = [extra for group in re.findall(r"\[([\w,]+)\]", line) for extra in group.split(",")]
        assert asked, line
        assert set(asked) <= set(extras), line
    elif words[:1] == ["python"]:
        assert (ROOT / words[1]).exists(), line
    else:
        assert not words, f"nobody tests this command: {line}"


def run_page(page: Path, place: Path, capsys: Any) -> None:
    """Run every block of a page that can run here, in the folder `place`, which is the current one."""
    namespace: dict[str, Any] = {}
    blocks = [block for block in blocks_of(page) if not block.not_run]
    for block in blocks:
        if block.file:
            (place / block.file).write_text(block.code, encoding="utf-8")
    for block in blocks:
        if block.file and block.file.startswith("test_"):
            _run_tests(block.code)
        elif block.language == "python" and not block.file:
            exec(compile(block.code, page.name, "exec"), namespace)
        elif block.language == "sh":
            for line in lines_of(block.code):
                _run(line, capsys)


def _run(line: str, capsys: Any) -> None:
    if not line.startswith("residua "):
        check_other(line)
        return
    words = shlex.split(line, comments=True)
    name = name_of(words)
    quickly = [] if {"--outputs", "--features"} & set(words) else QUICKLY.get(name, [])
    quickly = INSIDE if "--plan-only" in words else quickly
    quickly = CRITICS if name == "measure" and "IDI" in " ".join(words) else quickly
    if any(word.startswith("timm:") for word in words):
        quickly = OF_A_LIBRARY[name]
    code = main([*words[1:], *quickly])
    allowed = (0, 1, 2) if name == "audit" else (0,)
    assert code in allowed, (line, capsys.readouterr().err[-2000:])


def _run_tests(code: str) -> None:
    """The tests of a block pass, or fail with a verdict."""
    namespace: dict[str, Any] = {}
    exec(compile(code, "a test", "exec"), namespace)
    tests = [thing for name, thing in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        try:
            test()
        except AssertionError as error:
            if str(error).split(":")[0] not in WORDS:
                raise


def few(channels: int) -> rs.Dataset:
    """Ten classes of 24 images, which stand in for the real data."""
    train, test = (make_arrays(n, classes=10, channels=channels, seed=n) for n in (240, 60))
    return rs.data.arrays(*train, *test, name="few")


def own_network() -> torch.nn.Module:
    """The network of docs/models.md, which README's commands name too."""
    namespace: dict[str, Any] = {"__name__": "mycode"}
    exec(block_of(DOCS / "models.md", "mycode.py"), namespace)
    return namespace["make"]()


def prepare(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the current one that has what pages take for granted, with few data and short trainings."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setitem(data_words.EMBEDDED, "fashion-sample", lambda: few(1))
    monkeypatch.setitem(data_words.ON_DISK, "cifar10", lambda folder: few(3))
    monkeypatch.setattr(rs.data, "fashion_sample", lambda: few(1))
    quick = rs.Pretraining(epochs=1, batch=16, crop=0)
    monkeypatch.setattr(presets, "pretraining", lambda *_: quick)
    monkeypatch.setattr(audit_command, "pretraining", lambda *_: quick)
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    monkeypatch.delitem(sys.modules, "mycode", raising=False)
    (place / "mycode.py").write_text(block_of(DOCS / "models.md", "mycode.py"), encoding="utf-8")
    (place / "data").mkdir(exist_ok=True)
    for seed, name in enumerate(("before", "after", "retrain", "theirs")):
        torch.manual_seed(seed)
        torch.save(own_network().state_dict(), place / f"{name}.pth")
    random = np.random.default_rng(0)
    for role in ("o", "u", "r"):
        features = {"block1": random.normal(size=(60, 8)), "labels": np.arange(60) < 20}
        logits = {"forget_logits": random.normal(size=(50, 4)), "test_logits": random.normal(size=(80, 4))}
        np.savez(place / f"{role}.npz", **features, **logits)
        np.savez(place / f"{role}_features.npz", **features)
        np.savez(place / f"{role}_outputs.npz", **logits)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits in Python, and studies, with one short fit where they would make many."""
    curve = partial(InformationCurve, steps=5, rounds=1, folds=2)
    quick = partial(auditing.audit, curve=curve(last=1), measures=())
    monkeypatch.setattr(rs, "audit", quick)  # first: it is looked up there, and put back as it was
    monkeypatch.setattr(auditing, "audit", quick)
    for room in (presets, presets):
        monkeypatch.setattr(room, "InformationCurve", curve)
    monkeypatch.setattr(presets, "FULL_STACK", presets.FULL_STACK[:1])
