"""Whatever is typed after `residua`: help, or one sentence and exit code 3; never a traceback, nothing written."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from residua.cli import COMMANDS as NAMES
from residua.cli import loaded, main


def commands() -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Every command that exists, with its parameters; `unlearn` with those of one method."""
    for name in NAMES:
        command = loaded(name, ["COLA"] if name == "unlearn" else [])
        inner = getattr(command, "commands", {})
        for part, each in inner.items():
            yield (name, part), list(each.params)
        if not inner:
            yield (name,), list(command.params)


COMMANDS = dict(commands())

TRAIN = ["train", "unlearn", "tune", "controls", "demo", "ulira", "study run"]


@pytest.mark.parametrize("name", TRAIN)
def test_every_command_that_trains_takes_a_device_and_a_network(name):
    options = {option for parameter in COMMANDS[tuple(name.split())] for option in parameter.opts}
    assert {"--device", "--network"} <= options


def test_every_command_that_opens_data_says_how_images_are_shown_and_no_other():
    """`ulira --size` is that of its forget sets; for images `--data NAME:PLACE?size=32` says it there."""
    opens = [name for name, parameters in COMMANDS.items() if any(p.name == "data" for p in parameters)]
    shows = [name for name, parameters in COMMANDS.items() if any("--mean" in p.opts for p in parameters)]
    assert shows == opens
    assert {("audit",), ("study", "run"), ("study", "plan"), ("data", "show"), ("ulira",)} <= {*opens}
    assert ("explain",) not in opens
    for name in opens:
        options = {option for parameter in COMMANDS[name] for option in parameter.opts}
        assert {"--size", "--mean", "--std", "--normalise", "--dataset-name"} <= options, name


# What lets a command fail before any work, whatever else was typed, because the last word counts.
SMALL = ["--data", "mnist:data"]
FATAL = {
    ("export",): [
        ["nowhere"],
        ["file"],
        ["data"],
        ["--as", "figure", "--out", "file/below.pdf"],
        ["--as", "card", "--out", "file/below"],
        ["--against", "nonsense"],
    ],
    ("demo",): [["--out", "file/below"], ["--seed", "many"]],
    ("train",): [[*SMALL, "--network", "nonet"], ["--data", "nonsense"], ["--out", "file/below.safetensors"]],
    ("measure",): [
        [*SMALL, "file"],
        [*SMALL, "nowhere"],
        ["--data", "mnist:nowhere"],
        [*SMALL, "--original", "file"],
        ["--out", "file/below"],
    ],
    ("unlearn",): [
        [*SMALL, "--method", "Amnesia"],
        [*SMALL, "--original", "nowhere"],
        ["--data", "nonsense"],
        ["--out", "file/below.safetensors"],
    ],
    ("tune",): [["--data", "nonsense"], [*SMALL, "--original", "file"], ["--out", "file/below"]],
    ("ulira",): [["--method", "Amnesia"], ["--data", "nonsense"], ["--out", "file/below"], ["--budget", "soon"]],
    ("explain",): [["nonsense"], ["--scale", "nonsense"]],
    ("audit",): [
        [*SMALL, "--original", "nowhere"],
        [*SMALL, "--unlearned", "file"],
        ["--data", "nonsense"],
        ["--out", "file/below"],
        ["--budget", "soon"],
        ["--margin", "1"],
        [*SMALL, "--plan-only", "--plan", "file/below"],
    ],
    ("controls",): [["--data", "nonsense"], ["--out", "file/below"], ["--margin", "1"]],
    ("verify",): [["nowhere", "file"]],
    ("calibrate",): [["--only", "nonsense"], ["--out", "file/below"], ["--repeats", "1"]],
    ("study", "run"): [["--out", "file/below"], ["--engine", "nonsense"]],
    ("study", "plan"): [["--jobs", "0"]],
    ("study", "status"): [["nowhere", "file"]],
    ("study", "why"): [["nowhere", "file", "file"]],
    ("study", "table"): [["nowhere", "file"]],
    ("study", "verdicts"): [["--out", "nowhere"], ["--seeds", "0"]],
    ("study", "check"): [["nowhere", "file"]],
    ("study", "prune"): [["nowhere", "file"]],
    ("data", "show"): [["--data", "nonsense"], ["--data", "image-folder:nowhere"]],
    ("data", "manifest"): [["--data", "nonsense"], [*SMALL, "--forget", "nonsense"]],
    ("data", "fetch"): [["--mirror", "ftp://127.0.0.1"], ["--to", "file/below", "--mirror", "ftp://127.0.0.1"]],
}
ANYWHERE = [["--no-such-option", "3"]]

VALUES = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "-", "--", "-1", "true", "None", "a\nb", "~", "\ud800", "[red]", "%s", "{}"]),
)


# Values of the right kind for options that take no number; anything can still be wrong with them.
WORDS = {
    "--data": ["nonsense", "mnist:nowhere", "cifar10:.", "cifar10", "parquet:file", "image-folder:.", "mnist:", ":", ""],
    "--forget": ["class:1", "classes:1,2", "class:", "samples:2", "samples:2:x", "indices:file", "indices:", "6", "\0"],
    "--device": ["cpu", "auto", "meta", "cuda:99", "quantum", "", "cpu:1"],
    "--network": ["resnet18", "vit", "nonet", "os:getcwd", "nowhere:make", "builtins:dict", ":", "a:b:c", ""],
    "--cuts": ["stem,layer1", ",", "", "\0"],
    "--scale": ["tiny", "small", "full", "huge", "custom", ""],
    "--variant": ["tiny", "base", "giant", ""],
    "--schedule": ["cosine", "constant", "linear", ""],
    "--precision": ["auto", "float32", "bfloat16", "float8"],
    "--protocol": ["held-out", "paper", "other"],
    "--ratio": ["all", "1:5", "10%", "0:0", "-1%", "nan%", ":"],
    "--mirror": ["ftp://127.0.0.1", "nonsense", "", "http:"],
    "--only": ["nonsense", ""],
    "--budget": ["90s", "10m", "1e9h", "-1m", "m", ""],
    "--of-class": ["all", "6", "shirt", ""],
    "--against": ["TA", "RTE", "nonsense", ""],
    "--variance": ["example", "shared", "none"],
    "--as": ["page", "card", "statement", "junit", "figure", "nonsense"],
    "--kind": ["curves", "idi", "nonsense"],
}  # fmt: skip
PATHS = [
    "file",
    "nowhere",
    "file/below",
    ".",
    "..",
    "",
    "\0",
    "~nobody",
    "x.safetensors",
    "x.json",
    "X y.json",
    "a" * 300,
]
for option in (
    "--out",
    "--junit",
    "--plan",
    "--record",
    "--to",
    "--original",
    "--reference",
    "--unlearned",
    "--records",
):
    WORDS[option] = PATHS
NUMBERS = st.integers(-1, 9).map(str) | st.sampled_from(["0.5", "nan", "-inf", "1e999", "9" * 30, "-0"])


def values(parameter: Any) -> st.SearchStrategy[list[str]]:
    """The parameter with a value of its kind, and now and then with any other."""
    name = parameter.opts[0]
    if not name.startswith("-"):
        return st.lists(st.sampled_from(PATHS) | VALUES, min_size=1, max_size=2)
    if getattr(parameter, "is_flag", False):
        return st.sampled_from([[option] for option in (*parameter.opts, *parameter.secondary_opts)])
    fitting = st.sampled_from(WORDS[name]) if name in WORDS else NUMBERS
    return st.one_of(fitting, fitting, fitting, fitting, VALUES).map(lambda value: [f"{name}={value}"])


@st.composite
def command_lines(draw: Any) -> list[str]:
    command = draw(st.sampled_from(sorted(COMMANDS)))
    words = list(command)
    given = [p for p in COMMANDS[command] if p.required] + draw(
        st.lists(st.sampled_from(COMMANDS[command]), max_size=5)
    )
    for parameter in given:
        words += draw(values(parameter))
    fatal = FATAL.get(command, ANYWHERE)
    return words + draw(st.sampled_from(fatal + fatal + ANYWHERE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "file").write_text("mine")
    (folder / "data").mkdir()
    for stem, n in (("train", 40), ("t10k", 10)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = np.random.default_rng(n).integers(0, 256, (n, 8, 8), dtype=np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"data/{stem}-{name}-ubyte").write_bytes(head + array.tobytes())
    return folder


def test_there_are_fatal_words_for_every_command():
    assert set(FATAL) == set(COMMANDS), "say in FATAL what makes the new command fail before any work"


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@example(["train", "--data", "nonsense", "--forget", "\0", "--out", "\0.safetensors"])
@example(["measure", "\0", "--data", "nonsense", "--forget", "class:1", "--device", "cuda:99"])
@example(["measure", "--original", "", "--reference", "", "--data", "nonsense", "--forget", "", "--out", "\0"])
@example(["calibrate", "--out", "\0", "--only", "nonsense"])
@example(["data", "fetch", "mnist", "--to", "\0", "--mirror", "ftp://127.0.0.1"])
@given(command_lines())
def test_a_command_line_that_cannot_work_says_so_in_one_sentence(folder, words):
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    finally:
        os.chdir(before)
    if code == 0:
        assert {"--help", "-h"} & set(words)
    else:
        assert code == 3
        assert out.getvalue() == ""
        assert err.getvalue().startswith("residua: ")
        assert len(err.getvalue().splitlines()) == 1
    assert "Traceback" not in err.getvalue()
    assert sorted(path.name for path in folder.iterdir()) == ["data", "file"]
    assert (folder / "file").read_text() == "mine"
