"""Settings of the site: `make docs` builds it. The source is the whole tree, so that links mean the same here and there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import make_api

import residua

ROOT = Path(__file__).resolve().parents[1]

project = "residua"
author = "the authors of residua"
copyright = "2026, the authors of residua. MIT licence"  # Sphinx asks for this name
version = release = residua.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
root_doc = "docs/index"
# Pages lie where a code host shows them; the readme is that host's front page, docs/index.md is this one's.
include_patterns = [
    "docs/*.md",
    "docs/api/*.rst",
    "records/*/table.md",
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "RESULTS.md", "SECURITY.md"),
]
exclude_patterns = [*(".*", "build", "dist", "src", "tests", "demo", "data", "models", "benchmarks", "examples")]
nitpicky = True

myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # it would make one dash of the two of an option
autosummary_generate = False  # make_api writes the pages; autosummary makes the tables at their heads
autodoc_typehints = "none"  # notes on fields are long: make_api shows them as a table
autodoc_preserve_defaults = True
add_module_names = False

html_theme = "furo"
html_title = "residua"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
templates_path: list[str] = []


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: make_api.write(ROOT / "docs/api"))
    app.connect("autodoc-process-docstring", make_api.as_rst)
    app.connect("source-read", _as_pages)
    app.connect("build-finished", _front_door)


def _as_pages(app: Any, name: str, source: list[str]) -> None:
    """Parts that only the site needs: contents of the first page, from its own links, and titles of the tables of records."""
    if name == root_doc:
        source[0] += "".join(toctree(*section) for section in contents(source[0]))
    elif name == "docs/results":
        more = [f"../{path.stem}" for path in ROOT.glob("RESULTS.md")]
        tables = sorted(path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("records/*/table.md"))
        source[0] += toctree("Records", [*more, *(f"../{table.as_posix()}" for table in tables)])
    elif name.startswith("records/"):
        source[0] = f"# records/{Path(name).parent.name}\n\n{source[0]}"
    source[0] = without_folders(source[0], (ROOT / name).parent)


def without_folders(text: str, place: Path) -> str:
    """A code host shows folders and a site has none: links to them become their text and their path."""

    def shown(link: re.Match[str]) -> str:
        folder = (place / link[2]).resolve()
        if not folder.is_dir() or not folder.is_relative_to(ROOT):
            return link[0]
        path = folder.relative_to(ROOT).as_posix()
        return link[1] if path in link[1] else f"{link[1]} (`{path}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)\)", shown, text)


def contents(text: str) -> list[tuple[str, list[str]]]:
    """The sections of a page, each with the pages that the items of its list lead to; then those of the package."""
    sections = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    found = [
        (title, pages)
        for title, body in zip(sections[::2], sections[1::2], strict=True)
        if (pages := re.findall(r"^- .*?\]\((.+?)\.md\)", body, flags=re.M))
    ]
    return [*found, ("API", ["api/residua", *(f"api/{make_api.stem(room)}" for room in make_api.ROOMS)])]


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```", ""])


def _front_door(app: Any, error: Exception | None) -> None:
    """Whoever opens the folder, and not the first page, is led there."""
    if error is None and app.builder.format == "html":
        page = '<!doctype html><html lang="en"><meta charset="utf-8"><title>residua</title>'
        page += '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">residua</a>\n'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")
