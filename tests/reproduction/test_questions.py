"""Any question to records: other references, blocks and critics, without fitting anything."""

from __future__ import annotations

import csv
import io
import json

import pytest
from made_records import KEPT, records

from residua.cli import main
from residua.record import Record
from residua.report.questions import answers


@pytest.fixture(scope="module")
def made(records):
    return [Record.read(path) for path in sorted(records.glob("*/*.json"))]


def means(found, label: str) -> dict[str, float]:
    return {row["question"]: row["mean"] for row in found.rows() if row["method"] == label}


def test_references_side_by_side_with_the_order(made):
    (found,) = answers(made, "reference", ["Retrain", "COLA", "EU-10", "nobody"])
    of = means(found, "FT")
    assert list(of) == ["reference Retrain", "reference COLA", "reference EU-10"]
    assert of["reference EU-10"] == pytest.approx((0.67 + 0.35) / 1.35, abs=0.02)
    table = found.table()
    assert "Spearman of reference Retrain and reference EU-10: 1.00" in table.note
    (eu,) = [row for row in table.rows if row[0] == "EU-10"]
    assert eu[1].endswith("(1)"), "the least of all methods"


def test_every_number_of_blocks_and_every_family(made):
    by_last = means(answers(made, "last")[0], "RL")
    assert list(by_last) == [f"n = {n}" for n in range(1, 6)]
    assert all(value == pytest.approx(0.83, abs=0.02) for value in by_last.values())
    assert list(means(answers(made, "family")[0], "RL")) == ["stack", "linear"]
    (by_block,) = answers(made, "block")
    blocks = means(by_block, "Original")
    assert list(blocks) == [f"block {n}" for n in range(1, 6)]
    assert all(value == pytest.approx(0.2, abs=0.01) for value in blocks.values())
    (spread,) = [row for row in by_block.rows() if (row["method"], row["question"]) == ("FT", "block 5")]
    assert spread["std"] is not None
    assert spread["n"] == 2


def test_on_the_command_line(records, capsys):
    folder = str(records / "deep0")
    assert main(["study", "table", folder, "--by", "last", "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {line["method"] for line in lines} >= set(KEPT)
    assert {line["std"] for line in lines} == {""}, "one seed has no spread"
    assert main(["study", "table", folder, "--by", "reference", "--latex"]) == 0
    assert "reference COLA" in capsys.readouterr().out
    values = {}
    for last in ("1", "2"):
        assert main(["study", "table", folder, "--reference", "EU-10", "--last", last, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        values[last] = {row["method"]: row["IDI"] for row in rows}
    assert values["1"]["EU-10"] == 0
    assert values["1"]["FT"] == pytest.approx((0.67 + 0.35) / 1.35, abs=0.02)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--reference", "Retrain", "--reference", "COLA"], "add --by reference"),
        (["--reference", "nobody"], "choose a reference among Original"),
        (["--family", "magic"], "family 'magic' was not measured"),
        (["--last", "9"], "last is 9, expected 1 to 5"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(words, sentence, records, capsys):
    assert main(["study", "table", str(records / "deep0"), *words]) == 3
    assert sentence in " ".join(capsys.readouterr().err.split())
