"""Words of `verify` for a number or text that does not follow."""

from __future__ import annotations

from residua.audits.verifying import _unlike
from residua.text import Difference


def test_long_texts_are_shown_where_they_part():
    long = "It still knows it, and " * 20
    told = _unlike(Difference("sentence", f"{long}IDI 0.10{long}", f"{long}IDI 1.00{long}"))
    assert "0.10" in told.split("but the records give")[0]
    assert "1.00" in told.split("but the records give")[1]


def test_short_ones_are_shown_whole():
    assert _unlike(Difference("idi.value", 0.5, 0.9)) == ("report.json says idi.value = 0.5, but the records give 0.9")
