"""What is printed is text, whatever files have put into it."""

from __future__ import annotations

import json

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
