"""Every committed result is whole and says how it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

import residua as rs

RECORDS = Path(__file__).resolve().parents[1] / "records"
FILES = sorted(RECORDS.rglob("*.json"))


def test_there_are_records():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RECORDS)))
def test_a_record_is_whole_and_carries_its_command(path):
    record = rs.Record.read(path)
    assert record.command.startswith("residua ")
    assert record.name == path.stem


def test_the_small_recipe_reaches_its_accuracy_on_cifar10():
    record = rs.Record.read(RECORDS / "cifar10-small-original.json")
    assert record.readings["accuracy"]["TA"] >= 0.85
    assert record.seconds["train"] <= 45 * 60
    assert sum(record.setting["task"]["splits"][name]["n"] for name in ("forget", "retain")) == 50_000
