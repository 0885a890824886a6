"""Text from files on its way to a screen."""

from __future__ import annotations

import json

import pytest

import residua as rs
from residua.cli.console import complain, say
from residua.cli.console import out as screen
from residua.errors import LONGEST_SENTENCE, printable

STEERING = ["\x1b[2J", "\x07", "\x9b31m", "\x7f", "\u202e", "\u2066", "\ufeff", "\r", "\x00", "\ud800", "\U000e0001"]


@pytest.mark.parametrize("text", STEERING, ids=ascii)
def test_what_would_steer_a_terminal_is_escaped(text, capsys):
    shown = printable(f"a{text}b")
    assert shown.encode("utf-8")
    assert text[0] not in shown
    assert json.loads(f'"{shown}"') == f"a{text}b"  # and can be read back
    for show in (complain, say, screen.print):
        show(f"a{text}b")
        out, err = capsys.readouterr()
        assert text[0] not in out + err


def test_an_error_that_quotes_a_file_is_one_line_of_text():
    assert str(rs.InputError("no column a\x0b\x00\nb")) == r"no column a\u000b\u0000 b"


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "Größe 日本 é", "🙂", ""])
def test_text_stays_as_it_is(text):
    assert printable(text) == text


def test_long_text_is_cut_in_the_middle(capsys):
    assert printable("abcdefghijklmnopqrstuvwxyz", 15) == "abcde ... vwxyz"
    assert printable("x" * 15, 15) == "x" * 15
    complain("y" * 100_000)
    assert len(capsys.readouterr().err) <= LONGEST_SENTENCE + 20
