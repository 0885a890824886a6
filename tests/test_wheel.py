"""The wheel in a fresh environment, away from the checkout: the demo and README's lines run there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Another Python than this one may be tried: RESIDUA_TEST_PYTHON=python3.13.
PYTHON = os.environ.get("RESIDUA_TEST_PYTHON", sys.executable)
pytestmark = pytest.mark.slow


def run(words: list[str | Path], where: Path, minutes: float = 30) -> subprocess.CompletedProcess:
    """Without anything of this process that would let Python find the checkout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in words], cwd=where, env=clean, capture_output=True, text=True, timeout=60 * minutes
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """The wheel and the archive of the sources that `python -m build` makes of what git knows."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("built")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if not name.startswith(("records/", "tests/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    done = run([sys.executable, "-m", "build", "--outdir", out, copy], copy)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {"wheel": next(out.glob("*.whl")), "sources": next(out.glob("*.tar.gz"))}


@pytest.fixture(scope="module")
def place(built, tmp_path_factory) -> Path:
    """A folder with `env`, an environment that holds the wheel and what it declares."""
    folder = tmp_path_factory.mktemp("fresh")
    assert run([PYTHON, "-m", "venv", "env"], folder).returncode == 0
    install = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    torch = run([*install, "torch"], folder)
    if torch.returncode:
        pytest.skip(f"PyTorch cannot be installed here: {torch.stderr.strip().splitlines()[-1]}")
    done = run([*install, built["wheel"]], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_wheel_holds_what_is_no_code_and_no_tests(built):
    names = zipfile.ZipFile(built["wheel"]).namelist()
    for part in ("py.typed", "metrics.json", "report/templates/page.js", "data/embedded/LICENSE.fashion-mnist"):
        assert f"residua/{part}" in names
    assert not any(name.startswith(("tests", "docs", "reproduction")) for name in names)
    with tarfile.open(built["sources"]) as sources:
        assert any(name.endswith("/pyproject.toml") for name in sources.getnames())


def test_the_demo_runs_without_the_checkout(place):
    found = run([place / "env/bin/python", "-I", "-c", "import residua; print(residua.__file__)"], place)
    assert (place / "env").resolve() in Path(found.stdout.strip()).resolve().parents, found.stderr
    done = run([place / "env/bin/residua", "demo", "--out", "demo"], place, minutes=180)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"HD .* SHALLOW", done.stdout)
    assert (place / "demo/report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_lines_of_the_readme_run_without_the_checkout(place):
    lines = re.findall(r"^residua (?:train|unlearn HD|audit) .*fashion-sample.*$", README, re.MULTILINE)
    assert len(lines) == 4
    short = {"train": ["--epochs", "2", "--width", "4"], "audit": ["--critic-steps", "5", "--critic-rounds", "1"]}
    for line in lines:
        words = shlex.split(line)[1:]
        done = run([place / "env/bin/residua", *words, *short.get(words[0], [])], place, minutes=60)
        assert done.returncode in ((0, 1, 2) if words[0] == "audit" else (0,)), done.stderr[-3000:]
    assert (place / "audit/report.html").exists()
    code = next(
        block for block in re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S) if "rs.forget_classes" in block
    )
    done = run([place / "env/bin/python", "-I", "-c", code], place, minutes=60)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[0].isupper()
