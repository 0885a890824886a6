"""Generated pages of the documentation are what the tree gives."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import yaml

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


def test_the_schemas_are_what_the_program_writes():
    made = script("make_schemas")
    found = {path.name: path.read_text(encoding="utf-8") for path in made.FOLDER.glob("*.json")}
    assert found == {name: made.text(schema) for name, schema in made.schemas().items()}, (
        "run: python docs/make_schemas.py"
    )


def test_committed_reports_and_records_are_what_the_schemas_say():
    schemas = {
        name: jsonschema.Draft202012Validator(schema)
        for name, schema in script("make_schemas").schemas().items()
    }
    for validator in schemas.values():
        validator.check_schema(validator.schema)
    seen = 0
    for path in (ROOT / "records").rglob("*.json"):
        body = json.loads(path.read_text(encoding="utf-8"))
        kind = (
            "report-1.json"
            if "verdict" in body
            else "record-2.json"
            if body.get("schema_version") == 2
            else None
        )
        if kind:
            seen += 1
            assert [(list(e.path), e.message) for e in schemas[kind].iter_errors(body)] == [], path
    assert seen > 50


def test_the_schemas_refuse_what_they_do_not_know():
    schema = script("make_schemas").schemas()["report-1.json"]
    body = json.loads(next((ROOT / "records/controls").glob("*.json")).read_text(encoding="utf-8"))
    for wrong in (body | {"verdict": "CERTIFIED"}, body | {"more": 1}, body | {"schema_version": 2}):
        assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_the_citation_names_this_version_and_the_paper_of_the_readme():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{cited["version"]}"' in project
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paper = cited["preferred-citation"]
    assert paper["title"] in readme
    names = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
    assert f"{{{names}}}" in readme
