"""RESULTS.md is what the records give, and every record says which command made it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from reproduction.record_index import RecordIndex, open_records
from reproduction.results import folder_tables, results_page
from residua.audits.verifying import PACKED, reports_in
from residua.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"
# Commands that write or print the table of what they make.
WITH_TABLES = {"study", "measure", "controls", "calibrate", "ulira", "tune", "audit"}
# The present names of commands that some records were made with: a record is never edited.
RENAMED = {"catalogue": "study", "idi": "measure"}


@pytest.fixture(scope="module")
def index() -> RecordIndex:
    return open_records(RECORDS)


def test_the_page_is_what_the_records_give_and_short(index):
    committed = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert committed == results_page(index), "run: make results"
    assert len(committed.encode()) <= 10_000


@pytest.mark.slow
def test_tables_of_studies_are_what_their_records_give(index):
    for folder, text in folder_tables(index).items():
        assert (RECORDS / folder / "table.md").read_text(encoding="utf-8") == text, "run: make results"


def test_verdicts_of_a_study_are_in_its_table_in_the_papers_order(tmp_path):
    folder = tmp_path / "some-study"
    (folder / "verdicts").mkdir(parents=True)
    for path in (RECORDS / "tiny-vit").glob("*original*"):
        shutil.copy(path, folder)
    for name in ("seed0-cola", "seed0-hd", "seed0-random"):
        shutil.copy(RECORDS / f"cifar10-controls/{name}.json", folder / "verdicts")
    (text,) = folder_tables(open_records(tmp_path)).values()
    rows = [line for line in text.splitlines() if line.startswith(("| Random", "| HD", "| COLA"))]
    assert [row.split(" | ")[2] for row in rows] == ["UTILITY_LOST", "SHALLOW", "UNDETERMINED"]
    assert "| HD | 0.0 | SHALLOW | 1.00 (" in rows[1]


def test_a_page_of_compact_records_judges_nobody():
    from residua.record import Record
    from residua.report.controls import verdicts_of

    compact = [Record.read(path) for path in sorted((RECORDS / "cifar10-small-random").glob("*.json"))]
    assert verdicts_of(compact) == {}


def commands_of(folder: Path) -> set[str]:
    """The commands that make what is in a folder; records and reports both name theirs."""
    found = set()
    bodies = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in folder.rglob("*.json")]
    bodies += [(folder / PACKED, each.model_dump()) for each in reports_in(folder) if (folder / PACKED).exists()]
    for path, body in bodies:
        command = _command(body)
        words = shlex.split(command.removeprefix("RESIDUA_PRECISION=bfloat16 "))
        assert words[:1] == ["residua"], f"{path} does not say which command made it"
        found.add(RENAMED.get(words[1], words[1]))
    return found


def _command(body: dict) -> str:
    return body.get("command") or body.get("about", {}).get("command") or body.get("provenance", {}).get("command", "")


# Runs of programs that are no commands of residua: each file names the program.
PROGRAMS = {
    "fuzz": "fuzz.json",
    "study-kills": "kills.json",
    "idi-speed": "speed.json",
    "cifar10-invariance": "original.json",
    "mutants": "table.md",
    "witnesses": "table.md",
}
FOLDERS = sorted(path.name for path in RECORDS.iterdir() if path.is_dir() and path.name not in PROGRAMS)


@pytest.mark.parametrize("folder", PROGRAMS)
def test_records_of_programs_name_their_program(folder):
    text = (RECORDS / folder / PROGRAMS[folder]).read_text(encoding="utf-8")
    command = text.split("`")[-2] if PROGRAMS[folder].endswith(".md") else _command(json.loads(text))
    program = shlex.split(command)[1]
    assert (RECORDS.parent / program).exists()


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_of_records_has_a_command_that_makes_it(name):
    made_by = commands_of(RECORDS / name)
    assert made_by, "no record"
    assert made_by <= set(COMMANDS)
    if (RECORDS / name / "table.md").exists() and not made_by & WITH_TABLES:
        pytest.fail(f"records/{name}/table.md has no command that makes it")


def test_records_stay_small():
    assert sum(path.stat().st_size for path in RECORDS.rglob("*") if path.is_file()) < 25e6
