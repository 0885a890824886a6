"""`residua export --as figure`: each kind from records and folders, in each format, and what cannot be drawn in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from residua.cli import main
from residua.report.figures import Kind

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
from planted_pages import HOSTILE, study_records

FIGURE = ["export", "--as", "figure"]


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """A folder of records with trajectories and t-SNE coordinates; one method has a hostile name."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for number, each in enumerate(study_records(("HD", HOSTILE[0], "$x_{1}^$"))):
        more = {
            "trajectory": random.random((4, 3)),
            "tsne.coordinates": random.normal(size=(30, 2)),
            "tsne.forgotten": np.arange(30) < 6,
        }
        fields = {"name": f"record{number}", "arrays": each.arrays | more}
        each.model_copy(update=fields).write(tmp_path / "study/records")
    return tmp_path / "study"


def test_every_kind_is_drawn_from_a_study(study, capsys):
    for kind in get_args(Kind):
        assert main([*FIGURE, "study", "--kind", kind, "--out", f"{kind}.svg"]) == 0
        assert capsys.readouterr().out == f"{kind}.svg\n"
        assert b"<svg" in Path(f"{kind}.svg").read_bytes()


def test_the_same_numbers_give_the_same_bytes(study):
    for name in ("one", "two"):
        assert main([*FIGURE, "study", "--kind", "curves", "--out", f"{name}.pdf"]) == 0
        assert main([*FIGURE, "study", "--kind", "curves", "--out", f"{name}.svg"]) == 0
    for suffix in ("pdf", "svg"):
        assert Path(f"one.{suffix}").read_bytes() == Path(f"two.{suffix}").read_bytes()


def test_every_format_is_written_from_single_records(study, capsys):
    files = sorted(str(path) for path in study.glob("records/*.json"))
    for suffix, start in ((".pdf", b"%PDF"), (".png", b"\x89PNG"), (".SVG", b"<?xml")):
        assert main([*FIGURE, *files, "--kind", "frontier", "--against", "RTE", "--out", f"f{suffix}"]) == 0
        assert Path(f"f{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["curves", "study", "--out", "x.docx"], "end its name in .pdf, .svg, .png"),
        (["pie", "study", "--out", "x.pdf"], "pie"),
        (["curves", "nowhere", "--out", "x.pdf"], "nowhere does not exist"),
        (["frontier", "study/records/record0.json", "--out", "x.pdf"], "do not hold the IDI of two methods"),
        (["curves", "study", "--out", "study/records/record0.json/x.pdf"], "cannot be written"),
        (["curves", "study"], "a figure is a file; give --out"),
        (["curves", "study", "--as", "card"], "--kind is for figures"),
    ],
)
def test_what_cannot_be_drawn_is_three_and_writes_nothing(study, capsys, words, says):
    before = sorted(study.parent.rglob("*"))
    assert main([*FIGURE, "--kind", *words]) == 3
    assert says in capsys.readouterr().err
    assert sorted(study.parent.rglob("*")) == before
