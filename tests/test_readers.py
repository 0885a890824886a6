"""One reader of JSON and one of whole numbers, and one escaper a format: what anybody may have written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import residua as rs
from residua.cli import main
from residua.record import Record
from residua.report.pages import render
from residua.report.table import Table
from residua.roles import references_in
from residua.text import from_json, whole_number

SOURCE = Path(rs.__file__).parent


def test_nobody_goes_round_the_readers():
    """Values that were plain before may go through JSON; what comes from a file may not."""
    ours = re.compile(r"json\.loads\((json\.dumps|\w+\.model_dump_json)\(")
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        found = re.findall(r"json\.loads?\(.*", text)
        assert all(ours.match(each) for each in found) or path.name == "text.py", (path, found)
        assert not re.search(r"\.is(digit|decimal|numeric)\(", text), path


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", "9" * 5000, "[" * 100_000, "{", "", b"\xff"])
def test_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 (any)
        from_json(text)


def test_whole_numbers_are_ascii_and_of_a_size():
    assert whole_number("0123") == 123
    assert [whole_number(word) for word in ("", "-1", "²", "٣", "1.0", " 1", "9" * 5000)] == [None] * 7
    assert references_in(["reference", "reference2", f"reference{'9' * 5000}"]) == ["reference", "reference2"]


HOSTILE = {
    "a long field": f"a.png,{'x' * 200_000}\nb.png,1",
    "lone carriage returns": "a.png,1\rb.png,2\r",
    "many digits": f"a.png,{'1' * 5000}\nb.png,1",
    "another digit": "a.png,²\nb.png,1",
    "an open quote": 'a.png,"1\nb.png,2',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_list_of_images_is_refused(tmp_path, case, capsys):
    file = tmp_path / "labels.csv"
    file.write_bytes(HOSTILE[case].encode())
    with pytest.raises(rs.InputError):
        rs.data.parsing.open_dataset(f"csv:{file}")


def test_a_size_that_is_no_number_is_refused(capsys):
    assert main(["measure", "x.safetensors", "--data", "fashion-sample?size=²", "--forget", "class:6"]) == 3
    assert "Traceback" not in capsys.readouterr().err


EVIL = ["=1+1", "+1+1", "-cmd|' /C calc'!A0", "@SUM(1)", "^^5cinput{x}", "$x$#~", "<script>", "a|b", "a\\|b"]


def test_no_cell_is_a_formula_a_command_or_markup():
    table = Table("t <script>", ("method",), tuple((cell,) for cell in EVIL))
    for line in table.csv().splitlines()[1:5]:
        assert line.lstrip('"')[0] == "'"
    latex = table.latex().split(r"\midrule")[1].split(r"\bottomrule")[0]
    plain = re.sub(r"\\text\w+\{\}|\\[%_&#${}]|\\\\", "", latex)
    assert not set(plain) & set("^~$#{}\\")
    markdown = table.markdown()
    assert "<script" not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 2 for row in rows)


def test_numbers_stay_numbers_in_csv():
    cells = ("-0.5", "+1", "1e-05", "-3.2e+10", "-", "0.1 ± 0.2")
    assert Table("", ("a",), tuple((cell,) for cell in cells)).csv().splitlines()[1:] == list(cells)


@pytest.mark.parametrize("label", ["a\x1b[2J", "a\u202eb", "a\nb", "x" * 600])
def test_a_record_with_a_label_that_steers_a_screen_is_refused(label):
    with pytest.raises(ValueError, match="one line of printable text"):
        Record(name="a", setting={}, method={"label": label}, seeds={}, readings={})


def test_a_page_hides_and_reorders_nothing():
    shown = {"title": "a\u202eb\x1b[2J", "sections": [], "command": "", "software": "", "models": 0}
    page = render("study.html", **shown, entries=[], records=[])
    assert "\u202e" not in page
    assert "\x1b" not in page
