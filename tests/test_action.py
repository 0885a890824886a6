"""The GitHub Action: its steps run here in a real shell, with a stand-in for `residua` that notes what it was given."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from residua.cli import loaded

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step.get("id") or step["name"]: step for step in ACTION["runs"]["steps"]}

# Notes its words; as `audit`, writes a report and ends with the code that the test wants.
STAND_IN = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word" >> "$NOTED"; done
printf 'END\\0' >> "$NOTED"
if [ "$1" = export ]; then echo "## a card"; exit 0; fi
mkdir -p "$OUT"
if [ "$CODE" != 3 ]; then printf '{"verdict": "%s"}' "$WORD" > "$OUT/report.json"; fi
exit "$CODE"
"""
# Answers where scripts are, and reads the verdict.
PYTHON = """#!/bin/sh
case "$3" in
*sysconfig*) echo "$BIN" ;;
*) exec {real} "$@" ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """A function that runs the step `audit` with inputs, and returns exit code, words per call, outputs and summary."""
    import sys

    for name, text in (("residua", STAND_IN), ("python3", PYTHON.format(real=sys.executable))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)

    def step(code: int = 1, word: str = "SHALLOW", **inputs: str):
        given = {name.replace("-", "_"): part.get("default", "") for name, part in ACTION["inputs"].items()}
        given |= {
            "original": "o.safetensors",
            "unlearned": "u.safetensors",
            "reference": "r.safetensors",
            "python": str(tmp_path / "python3"),
        }
        given |= inputs
        files = {name: tmp_path / name for name in ("NOTED", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        environment = {"PATH": os.environ["PATH"], "BIN": str(tmp_path), "CODE": str(code), "WORD": word}
        for name, expression in STEPS["audit"]["env"].items():
            environment[name] = given[expression.removeprefix("${{ inputs.").removesuffix(" }}").replace("-", "_")]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["audit"]["run"]],
            cwd=tmp_path, env=environment | {name: str(file) for name, file in files.items()},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        calls = [call.split("\0")[:-1] for call in files["NOTED"].read_text().split("END\0")[:-1]]
        step.said = done.stdout
        return (done.returncode, calls, files["GITHUB_OUTPUT"].read_text(), files["GITHUB_STEP_SUMMARY"].read_text())

    return step


def test_the_words_of_the_action_are_options_of_the_command(run):
    code, calls, outputs, summary = run(
        reference="r1.safetensors\nr 2.safetensors\n",
        data="cifar10:data/",
        forget="class:4",
        options="--stress\n--margin=0.3",
    )
    assert code == 1
    assert calls[0] == [
        "audit", "--original=o.safetensors", "--unlearned=u.safetensors", "--out=audit", "--junit=audit/junit.xml",
        "--reference=r1.safetensors", "--reference=r 2.safetensors", "--data=cifar10:data/", "--forget=class:4",
        "--stress", "--margin=0.3",
    ]  # fmt: skip
    known = {option for parameter in loaded("audit").params for option in parameter.opts}
    assert {word.partition("=")[0] for word in calls[0][1:]} <= known
    assert outputs == "exit-code=1\nverdict=SHALLOW\n"
    assert summary == "## a card\n"


@pytest.mark.parametrize(
    ("code", "allowed", "ends"), [(0, "false", 0), (2, "false", 2), (2, "true", 0), (1, "true", 1), (3, "true", 3)]
)
def test_the_build_fails_unless_it_forgot(run, code, allowed, ends):
    found, _, outputs, _ = run(code=code, allow_undetermined=allowed)
    assert found == ends
    assert outputs.startswith(f"exit-code={code}\n")
    assert ("verdict=" in outputs) == (code != 3)


def test_inputs_are_never_read_as_commands(run, tmp_path):
    hostile = "$(touch hacked)`touch hacked`\"; touch hacked; ' --x"
    _, calls, _, _ = run(
        original=hostile, reference=hostile, data=hostile, forget=hostile, options=hostile, unlearned=hostile
    )
    assert calls[0].count(hostile) == 1
    assert calls[0].count(f"--original={hostile}") == 1
    assert not (tmp_path / "hacked").exists()
    for step in STEPS.values():
        assert "${{" not in step["run"]


def test_every_input_is_used_and_described():
    used = json.dumps([step["env"] for step in STEPS.values()])
    for name, part in ACTION["inputs"].items():
        assert f"inputs.{name} }}" in used
        assert part["description"]
        assert part.get("required") or "default" in part


def test_a_reference_is_asked_for_and_every_result_is_an_annotation(run):
    assert ACTION["inputs"]["reference"]["required"]
    code, calls, *_ = run(reference=" \n")
    assert (code, calls) == (3, [])
    assert run.said.startswith("::error title=residua audit::reference is missing")
    for code, kind in ((0, "notice"), (1, "error"), (2, "warning"), (3, "error")):
        run(code=code)
        assert f"::{kind} title=residua audit::{'SHALLOW' if code != 3 else 'no verdict'} " in run.said


def test_the_action_installs_the_tested_versions_without_cuda():
    install = STEPS["Install residua"]
    assert "--require-hashes" in install["run"]
    assert '-r "$SOURCE/requirements/action.txt"' in install["run"]
    assert "--no-index --no-deps" in install["run"]
    assert '--extra-index-url="$TORCH_INDEX"' in install["run"]
    assert ACTION["inputs"]["torch-index"]["default"].endswith("/cpu")


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.stem)
def test_every_package_that_is_installed_is_known_by_version_and_hash(lock):
    text = lock.read_text(encoding="utf-8").replace(" \\\n", " ")
    packages = dict(line.split(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    for name, hashes in packages.items():
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+", name)
        assert re.fullmatch(r"( *--hash=sha256:[0-9a-f]{64})+", hashes), name
    versions = dict(name.split("==") for name in packages)
    tested = re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    for name, version in tested:
        assert versions.get(name.replace("_", "-"), version) == version
    assert {"torch", "numpy", "pillow", "pyarrow", "setuptools"} <= versions.keys()
