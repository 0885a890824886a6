"""Writes RESULTS.md and docs/figures/ from records/ alone: the paper's tables and figures, ours beside theirs."""

from __future__ import annotations

from pathlib import Path

from residua.paper.figure_list import FIGURES
from residua.paper.results import draw_figures, figure_name, results_page
from residua.paper.shelf import Shelf, open_shelf

ROOT = Path(__file__).resolve().parents[1]
DRAWN = ROOT / "docs/figures"
NOTES = ROOT / "docs/results_notes.md"


def page(shelf: Shelf) -> str:
    """The page, with the figures that are in docs/figures."""
    notes = NOTES.read_text(encoding="utf-8") if NOTES.exists() else ""
    names = {spec.label: figure_name(spec.label) for spec in FIGURES}
    there = {label: f"docs/figures/{name}" for label, name in names.items() if (DRAWN / name).exists()}
    return results_page(shelf, notes, there)


def main() -> None:
    shelf = open_shelf(ROOT / "records")
    DRAWN.mkdir(exist_ok=True)
    for old in DRAWN.glob("*.svg"):
        old.unlink()
    draw_figures(shelf, DRAWN)
    (ROOT / "RESULTS.md").write_text(page(shelf), encoding="utf-8")


if __name__ == "__main__":
    main()
