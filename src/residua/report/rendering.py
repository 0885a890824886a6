"""Rendering: a template and what it shows become one file that asks nobody for anything."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from residua.errors import printable

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **shown: Any) -> str:
    """The page. Whatever comes from a file is escaped; only figures, which we drew, are markup.

    The policy in its head lets the browser load nothing and run this one script and no other, known by its hash.
    """
    from markupsafe import Markup

    from residua.report.figures.style import DARK, variables

    script = _text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scheme = f"{variables(DARK)} color-scheme: dark;"
    style = (
        f":root {{ {variables()} color-scheme: light; }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {scheme} }} }}\n{_text('page.css')}"
    )
    page = environment(autoescape=True).get_template(template).render(
        **shown,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        generator=generator(),
    )  # fmt: skip
    return printable(page)  # nothing in it hides or reorders text


def generator() -> str:
    """The versions that draw pages here: others may draw the same numbers otherwise."""
    return f"residua {version('residua')}, matplotlib {version('matplotlib')}"


def same_page(written: str, drawn: str) -> str:
    """The reason why a page is not the one that its numbers give; empty if it is.

    A page that another version drew is compared without its figures, and without the line that names the version.
    """
    if written == drawn:
        return ""
    if not drawn_elsewhere(written):
        return "report.html is not the page that report.json and the records give"
    if _words(written) == _words(drawn):
        return ""
    return (
        "report.html is not the page that this version makes of report.json and the records (another version drew it); "
        "make it again with `residua export`"
    )


def drawn_elsewhere(written: str) -> bool:
    """True if another version of residua or matplotlib drew this page, so that its figures cannot be compared."""
    return generator() not in written


def _words(page: str) -> str:
    page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    return re.sub(r"residua [^,<\"]{1,40}, matplotlib [^,<\"]{1,40}", "", page)


@functools.cache
def environment(*, autoescape: bool) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@functools.cache
def _text(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8")
