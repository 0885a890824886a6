"""Printed lines are text, whatever files have put into them."""

from __future__ import annotations

import json

from residua.cli import console
from residua.cli.console import out

# A control sequence without an escape character, and one that turns the direction of writing.
HOSTILE = {"a\x9b2J": "\u202e\x07b", "ä": ["\x1b[31m"]}


def test_json_cannot_steer_the_terminal(capsys):
    out.print_json(json.dumps(HOSTILE, ensure_ascii=False))
    printed = capsys.readouterr().out
    assert json.loads(printed) == HOSTILE
    assert all(c.isprintable() or c == "\n" for c in printed)


def test_neither_can_plain_text(capsys):
    out.print("a\x9b2J\u202eb", markup=False)
    assert all(c.isprintable() or c == "\n" for c in capsys.readouterr().out)


def test_the_time_left_of_an_audit_is_told_once_something_like_it_was_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(console, "monotonic", lambda: now[0])
    roles, measures = ("unlearned", "original", "reference"), ("information", "accuracy")
    left = console.Remaining([f"{role}: {each}" for role in roles for each in measures])
    assert left.begin("unlearned: information") == ""
    now[0] = 20.0
    assert left.begin("unlearned: information, 10 critics of blocks 4, 5") == ""
    now[0] = 60.0
    assert left.begin("unlearned: accuracy") == " (at least 2.0 m left)"
    now[0] = 61.0
    assert left.begin("original: information") == " (about 2.0 m left)"
