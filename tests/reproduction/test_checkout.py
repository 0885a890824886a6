"""The reproduction belongs to a checkout: without one it says so, and the package does without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_outside_a_checkout_it_says_in_one_sentence_that_it_needs_one(tmp_path):
    shutil.copytree(ROOT / "reproduction", tmp_path / "reproduction")
    done = subprocess.run(
        [sys.executable, "-m", "reproduction", "--list"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "needs a checkout of residua" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_package_does_not_know_it():
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import reproduction" not in text, path
        assert "from reproduction" not in text, path
