"""Draws the pictures of pages in docs/pages/: what a reader sees, on a desk, on a phone, in the dark and on paper.

    python docs/make_screenshots.py

The pages are those of records in this repository: HD among the controls, a study of methods, and all controls. Needs
Debian's chromium, playwright and Pillow.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from residua.cli import main
from residua.report.audit import AuditReport
from residua.report.pages import audit_page

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pages"
AUDIT = ROOT / "records/controls/seed0-hd.json"
FOLDERS = {"study": ROOT / "records/methods-class", "controls": ROOT / "records/controls"}
# Name: page, width and height in pixels, colours, medium.
SHOTS = {
    "audit": ("audit", 1000, 1000, "light", "screen"),
    "audit-dark": ("audit", 1000, 640, "dark", "screen"),
    "audit-phone": ("audit", 390, 1100, "light", "screen"),
    "audit-print": ("audit", 673, 985, "light", "print"),
    "study": ("study", 1280, 1460, "light", "screen"),
    "controls": ("controls", 1280, 900, "light", "screen"),
}


def draw() -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        single = Path(place) / "audit.html"
        single.write_text(audit_page(AuditReport.model_validate_json(AUDIT.read_text("utf-8"))), "utf-8")
        pages = {"audit": single.as_uri()}
        for name, folder in FOLDERS.items():
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
    draw()
