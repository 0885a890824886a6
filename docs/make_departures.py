"""Writes docs/departures.md: every mark in the source that says where it differs from the paper or from public code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/residua"
HEAD = """# Departures

Where the code does something else than the paper, or than the public code of a method or metric (the reference). Each
entry is a comment in the source: `# Differs from the paper:` or `# Differs from the reference:`.
`python docs/make_departures.py` writes this page; a test compares it with the tree. The largest departure of all is the
estimator of information, under [measure/information/curve.py](#measure-information-curve-py).
"""
MARK = re.compile(r"^\s*# Differs from the (paper|reference): (.*)$")
MORE = re.compile(r"^\s*# (.*)$")


def marks(text: str) -> list[tuple[int, str, str]]:
    """Line, what it differs from, and the sentence of every mark; comment lines right below go on with it."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if mark := MARK.match(line):
            words = [mark[2]]
            for below in lines[number:]:
                more = MORE.match(below)
                if not more or MARK.match(below):
                    break
                words.append(more[1])
            found.append((number, mark[1], " ".join(words)))
    return found


def owner(tree: ast.Module, line: int) -> str:
    """The class or function of the file that this line is in."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return node.name
    return ""


def page() -> str:
    parts = [HEAD]
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        own = marks(text)
        if own:
            tree = ast.parse(text)
            parts.append(f"\n## {path.relative_to(SOURCE)}\n")
            for line, source, sentence in own:
                name = owner(tree, line)
                parts.append(f"- {f'`{name}`, ' if name else ''}from the {source}: {sentence}")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs/departures.md").write_text(page(), encoding="utf-8")
