"""RESULTS.md is what the records give, and every record says which command made it."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
from pathlib import Path

import pytest

from residua.cli import PLACES, main
from residua.paper.results import drawable, results_page
from residua.paper.shelf import Shelf, open_shelf

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"
# Commands that write or print the table of what they make.
WITH_TABLES = {"catalogue", "study", "idi", "controls", "calibrate", "ulira", "tune", "reproduce", "audit"}
# Tables of folders whose records were made one by one.
TABLES = {
    "cifar10-methods-class": "residua study table records/cifar10-methods-class --markdown",
    "cifar10-methods-random": "residua study table records/cifar10-methods-random --markdown",
}


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return open_shelf(RECORDS)


@pytest.fixture(scope="module")
def make_results():
    spec = importlib.util.spec_from_file_location("make_results", ROOT / "docs/make_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_records_give(make_results, shelf):
    committed = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert committed == make_results.page(shelf), "run: make results"


def test_every_figure_that_can_be_drawn_is_there_or_too_large(make_results, shelf):
    there = {path.name for path in make_results.DRAWN.glob("*.svg")}
    assert there <= set(drawable(shelf)), "a figure of records that are gone; run: make results"
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert all(f"docs/figures/{name}" in text for name in there)


def test_verdicts_of_a_study_are_on_the_page_in_the_papers_order(tmp_path):
    folder = tmp_path / "some-study/verdicts"
    folder.mkdir(parents=True)
    for name in ("seed0-cola", "seed0-hd", "seed0-random"):
        shutil.copy(RECORDS / f"cifar10-controls/{name}.json", folder)
    page = results_page(open_shelf(tmp_path))
    rows = [line for line in page.splitlines() if line.startswith(("| Random", "| HD", "| COLA"))]
    assert [row.split(" | ")[2] for row in rows] == ["UTILITY_LOST", "SHALLOW", "UNDETERMINED"]
    assert "| HD | 0.0 | SHALLOW | 1.00 (" in rows[1]


def test_a_page_of_compact_records_judges_nobody():
    from residua.record import Record
    from residua.report.page.studies import _verdicts

    compact = [Record.read(path) for path in sorted((RECORDS / "cifar10-small-random").glob("*.json"))]
    assert _verdicts(compact) == {}


def commands_of(folder: Path) -> set[str]:
    """The subcommands that made what is in a folder; records and reports both name theirs."""
    found = set()
    for path in folder.rglob("*.json"):
        command = _command(json.loads(path.read_text(encoding="utf-8")))
        words = shlex.split(command.removeprefix("RESIDUA_PRECISION=bfloat16 "))
        assert words[:1] == ["residua"], f"{path} does not say which command made it"
        found.add(words[1])
    return found


def _command(body: dict) -> str:
    return (
        body.get("command")
        or body.get("about", {}).get("command")
        or body.get("provenance", {}).get("command", "")
    )


# Runs of programs that are no commands of residua: each file names the program.
PROGRAMS = {
    "fuzz": "fuzz.json",
    "study-kills": "kills.json",
    "idi-speed": "speed.json",
    "cifar10-invariance": "original.json",
}
FOLDERS = sorted(path.name for path in RECORDS.iterdir() if path.is_dir() and path.name not in PROGRAMS)


@pytest.mark.parametrize("folder", PROGRAMS)
def test_records_of_programs_name_their_program(folder):
    command = _command(json.loads((RECORDS / folder / PROGRAMS[folder]).read_text(encoding="utf-8")))
    program = shlex.split(command)[1]
    assert (RECORDS.parent / program).exists()


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_of_records_has_a_command_that_makes_it(name):
    made_by = commands_of(RECORDS / name)
    assert made_by, "no record"
    assert made_by <= set(PLACES)
    if (RECORDS / name / "table.md").exists() and not made_by & WITH_TABLES:
        assert name in TABLES, f"records/{name}/table.md has no command that makes it"


@pytest.mark.parametrize("name", sorted(set(TABLES) & set(FOLDERS)))
def test_tables_of_single_records_are_what_their_command_prints(name, capsys):
    assert main([*shlex.split(TABLES[name])[1:3], str(RECORDS / name), "--markdown"]) == 0
    assert (RECORDS / name / "table.md").read_text(encoding="utf-8") == capsys.readouterr().out


def test_records_stay_small():
    assert sum(path.stat().st_size for path in RECORDS.rglob("*") if path.is_file()) < 25e6
