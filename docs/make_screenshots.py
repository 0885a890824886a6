"""Draws the pictures of pages in docs/pages/: what a reader sees, on a desk, on a phone, in the dark and on paper.

    python docs/make_screenshots.py AUDIT_DIR [STUDY_DIR [CONTROLS_DIR]]

The folders are those that `residua audit --out`, a study and `residua controls` wrote; without the last two the records
of this repository are taken. Needs Debian's chromium, playwright and Pillow.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from residua.cli import main

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pages"
# Name: page, width and height in pixels, colours, medium.
SHOTS = {
    "audit": ("audit", 1000, 1000, "light", "screen"),
    "audit-dark": ("audit", 1000, 640, "dark", "screen"),
    "audit-phone": ("audit", 390, 1100, "light", "screen"),
    "audit-print": ("audit", 760, 1075, "light", "print"),
    "study": ("study", 1100, 1460, "light", "screen"),
    "controls": ("controls", 1100, 900, "light", "screen"),
}


def draw(folders: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        pages = {}
        for name, folder in zip(("audit", "study", "controls"), folders, strict=True):
            copy = shutil.copytree(folder, Path(place) / name / folder.name)
            if main(["export", str(copy), "--as", "page"]):
                raise SystemExit(f"{folder} gives no page")
            pages[name] = (copy / "report.html").as_uri()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        PICTURES.mkdir(exist_ok=True)
        for name, (page, width, height, colours, medium) in SHOTS.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
            opened = context.new_page()
            opened.emulate_media(media=medium, color_scheme=colours)
            opened.goto(pages[page])
            save(opened.screenshot(), PICTURES / f"{name}.png")
            context.close()
        browser.close()


def save(shot: bytes, path: Path) -> None:
    """Few colours are enough for a page, and make a small file."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(56, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]]
    if not given:
        raise SystemExit(__doc__)
    draw([*given, *(ROOT / "records/methods-class", ROOT / "records/controls")[len(given) - 1 :]])
