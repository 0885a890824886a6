from __future__ import annotations

import re

import pytest

from residua.errors import InputError
from residua.record import NAME
from residua.texts import duration, seconds_of, slug


def test_durations_are_read_in_every_unit_and_without_one():
    assert [seconds_of(text) for text in ("90", "90s", "10m", "1.5h", "3d", " 2 m ")] == [
        90, 90, 600, 5400, 259200, 120,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "soon", "0m", "-3s", "1e3", "5w", "٣s", "1m30s"])
def test_what_is_not_a_duration_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="write 90s, 10m, 2h or 3d"):
        seconds_of(text)


def test_durations_are_written_in_the_unit_that_a_reader_expects():
    texts = [duration(seconds) for seconds in (0.04, 12, 119, 130, 7300, 200_000)]
    assert texts == ["0.0 s", "12 s", "119 s", "2.2 m", "2.0 h", "2.3 d"]


@pytest.mark.parametrize("label", ["COLA+", "EU-10", "l1-sparse", "Second Retrain", "...", "Ä x/../y", "a.b"])
def test_a_label_becomes_the_name_of_a_record(label):
    assert re.fullmatch(NAME, slug(label))
    assert slug("COLA+") == "cola-plus"
    assert slug("COLA+") != slug("COLA")
