"""Generated pages of the documentation are what the tree gives."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def script(name: str):
    """A script of docs/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_is_what_the_tree_gives():
    assert (ROOT / "docs/map.md").read_text(encoding="utf-8") == script("make_map").page(), (
        "run: python docs/make_map.py"
    )


def test_every_file_says_what_it_is():
    make_map = script("make_map")
    silent = [path.name for path in make_map.SOURCE.rglob("*.py") if not make_map.sentence(path)]
    assert silent == []


def test_the_departures_are_what_the_tree_gives():
    made = script("make_departures")
    assert (ROOT / "docs/departures.md").read_text(encoding="utf-8") == made.page(), (
        "run: python docs/make_departures.py"
    )
    assert made.page().count("\n- ") >= 18


def test_a_departure_is_read_to_the_end_of_its_comment():
    made = script("make_departures")
    text = "x = 1\n    # Differs from the paper: one,\n    # two.\n    y = 2  # no\n# Differs from the reference: three."
    assert made.marks(text) == [(2, "paper", "one, two."), (5, "reference", "three.")]


def test_no_departure_is_marked_in_words_that_the_page_would_miss():
    made = script("make_departures")
    for path in made.SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(made.marks(text)) == text.lower().count("differs from the paper:") + text.lower().count(
            "differs from the reference:"
        ), path


def test_the_commands_are_what_the_program_has():
    assert (ROOT / "docs/commands.md").read_text(encoding="utf-8") == script("make_commands").page(), (
        "run: python docs/make_commands.py"
    )


def test_the_picture_shows_what_its_records_say(tmp_path):
    made = script("make_picture")
    made.draw(made.RECORDS, tmp_path / "picture.svg")
    texts = [
        re.findall(r"<text[^>]*>([^<]+)</text>", path.read_text(encoding="utf-8"))
        for path in (tmp_path / "picture.svg", made.PICTURE)
    ]
    assert {"Original", "Retrain", "HD", "COLA"} <= set(texts[0])
    assert texts[0] == texts[1], "run: python docs/make_picture.py"
