"""The table of docs/models.md says what real architectures do, and no usual family is refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FAMILIES = ("resnet", "vit", "deit", "beit", "swin", "convnext", "efficientnet", "mobilenet", "regnet", "densenet")


def rows() -> list[list[str]]:
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    table = page.split("<!-- begin architectures")[1].split("<!-- end architectures")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][1:]


def test_the_page_has_many_architectures_and_refuses_no_usual_family():
    found = rows()
    assert len(found) >= 30
    for library, name, adopted, _ in found:
        if any(family in name.lower() for family in FAMILIES):
            assert adopted == "yes", (library, name, adopted)


@pytest.mark.slow
def test_the_page_is_what_the_packages_give_now(timm, transformers, monkeypatch):
    spec = importlib.util.spec_from_file_location("make_architectures", DOCS / "make_architectures.py")
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, made)  # where its dataclasses look themselves up
    spec.loader.exec_module(made)
    assert made.main(["--check"]) == 0
