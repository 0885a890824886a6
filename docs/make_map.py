"""Writes docs/map.md: every file of the package with the first sentence of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/residua"
HEAD = """# The map of files

Every file with the first sentence of its docstring, room by room, from left to right along the corridor.
`python docs/make_map.py` writes this page; a test compares it with the tree.
"""
ROOMS = (
    "data",
    "models",
    "training",
    "unlearn",
    "measure",
    "compare",
    "report",
    "audits",
    "study",
    "paper",
    "cli",
)


def sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def page() -> str:
    parts = [HEAD, "## The ground floor\n", *_rows(sorted(SOURCE.glob("*.py")))]
    for room in ROOMS:
        parts += [f"\n## {room}\n", *_rows(sorted((SOURCE / room).rglob("*.py")))]
    return "\n".join(parts) + "\n"


def _rows(files: list[Path]) -> list[str]:
    return [f"- `{path.relative_to(SOURCE)}`: {sentence(path)}" for path in files]


if __name__ == "__main__":
    (ROOT / "docs/map.md").write_text(page(), encoding="utf-8")
