"""The commands and code of README and the quick start run as printed: on tiny data, with short fits where there would be long ones."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from torch import nn

import residua as rs
from documented import QUICKLY, hurry, name_of, own_network, prepare
from residua.cli import main
from residua.compare.verdicts import WORDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK_START = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# README's study has every method; here it has one.
QUICKER = QUICKLY | {"study run": [*QUICKLY["study run"][:-1], "Dim"]}


def blocks(text: str, language: str, holding: str) -> list[str]:
    """The blocks of this language that hold this."""
    return [code for kind, code in BLOCK.findall(text) if kind == language and holding in code]


def commands() -> list[list[str]]:
    lines = [line for block in blocks(README, "", "residua ") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("residua ")]


@pytest.fixture
def place(tmp_path, monkeypatch, one_thread, as_if_in_processes, quick_stack) -> Path:
    """A folder with all that README's commands and examples take for granted."""
    prepare(tmp_path, monkeypatch)
    (tmp_path / "my_method.py").write_text(blocks(README, "python", "# my_method.py")[0])
    return tmp_path


def test_every_command_of_the_readme_runs(place, monkeypatch, capsys):
    hurry(monkeypatch)
    lines = commands()
    assert {words[1] for words in lines} >= {"train", "unlearn", "audit", "verify", "study", "explain"}
    for words in lines:
        saved = "--outputs" in words
        code = main([*words[1:], *([] if saved else QUICKER.get(name_of(words), []))])
        allowed = (0, 1, 2) if words[1] == "audit" else (0,)
        assert code in allowed, (shlex.join(words), capsys.readouterr().err[-2000:])
    for made in ("original.safetensors", "audit/report.json", "dim.safetensors", "study/records"):
        assert (place / made).exists(), made


def test_the_examples_of_the_readme_run_as_printed(place, monkeypatch, capsys):
    hurry(monkeypatch)
    for seed, name in enumerate(("original", "hd", "retrain")):
        with rs.seeded(seed):
            rs.save(rs.models.resnet18(classes=10, channels=1, width=2), f"{name}.safetensors")
    net = own_network()
    stage3 = nn.Sequential(net.stage3, nn.Flatten())
    namespace: dict = {"net": nn.Sequential(OrderedDict(stem=net.stem, stage3=stage3, head=net.head))}
    for example in blocks(README, "python", ""):
        exec(compile(example, "README.md", "exec"), namespace)
    assert capsys.readouterr().out.split()[0] in WORDS
    assert namespace["model"].depth == 2
    with pytest.raises(AssertionError, match=r"[A-Z]+: "):
        namespace["test_the_release_forgot"]()


def test_the_answer_of_the_readme_has_the_words_of_the_program():
    word, sentence = blocks(README, "text", "IDI")[0].splitlines()[:2]
    assert sentence.startswith(WORDS[word])
    assert set(re.findall(r"^\| ([A-Z_]{5,}) \|", README, re.MULTILINE)) - {"SALUN"} == set(WORDS)


def test_what_the_readme_says_of_make_and_pip_is_there():
    makefile = (ROOT / "Makefile").read_text()
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for extra in re.findall(r'"\.\[(\w+)\]"', README):
        assert extra in extras


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "RESULTS.md"]
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
    assert (folder / "small.safetensors").exists()


def test_the_training_of_the_quick_start_runs_as_printed(place, capsys):
    exec(compile(blocks(QUICK_START, "python", "rs.Pretraining")[0], "quickstart.md", "exec"), {})
    check_what_the_example_did(capsys.readouterr().out, place)


@pytest.mark.slow
def test_the_training_of_the_quick_start_runs_in_a_new_interpreter_on_all_of_the_data(tmp_path):
    example = blocks(QUICK_START, "python", "rs.Pretraining")[0]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_what_the_example_did(done.stdout, tmp_path)
