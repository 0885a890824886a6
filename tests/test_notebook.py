"""The notebook among the examples, run as a reader would run it; and models of other packages, as the page shows them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from documented import BLOCK
from residua.models.classifier import weights_digest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


def test_the_notebook_runs_and_shows_the_page(tmp_path):
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    client.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("<iframe" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "SHALLOW" in outputs[0]["text"]


PAGE = (ROOT / "docs/models.md").read_text(encoding="utf-8").split("\n## Models of other packages\n")[1]
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
NEEDS = {
    "torchvision": (),
    "Hugging Face Trainer": (),
    "Lightning Fabric": ("lightning",),
    "supreme-unlearning": ("supreme",),
}


@pytest.mark.parametrize("section", SECTIONS)
def test_models_of_other_packages_are_taken(section, tmp_path, monkeypatch, transformers):
    for package in NEEDS[section]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = next(code for _, language, code in BLOCK.findall(SECTIONS[section]) if language == "python")
    names: dict = {}
    exec(compile(code, section, "exec"), names)
    assert names["model"].depth >= 3
    assert names["model"].architecture["classes"] == 10
    if "again" in names:
        assert weights_digest(names["again"]) == weights_digest(names["model"])
