"""`residua list`: which methods and measures there are, with their settings."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from residua.cli import declared
from residua.cli.console import out, show
from residua.cli.words import AsJson, PluginOption
from residua.report.table import Table


def listing(
    what: Annotated[Literal["methods", "measures"], typer.Argument(help="methods or measures.")] = "methods",
    plugin: PluginOption = None,
    as_json: AsJson = False,
) -> None:
    """Every way to unlearn, or to measure, with its settings and their defaults."""
    entries = declared.methods() if what == "methods" else declared.measures()
    if as_json:
        rows = [
            {"label": e.label, "class": e.kind, "about": e.about, "settings": e.settings} for e in entries
        ]
        out.print_json(json.dumps(rows))
        return
    more = "a method: residua explain NAME" if what == "methods" else "its metrics: residua explain"
    show(
        Table(
            title=f"residua {what}",
            columns=("Label", "About", "Settings"),
            rows=tuple((e.label, e.about, settings_line(e.settings)) for e in entries),
            note=f"More about {more}.",
        )
    )


def settings_line(settings: dict[str, Any]) -> str:
    """Names and values; a group of settings by its name only."""
    return ", ".join(
        name if isinstance(value, dict) else f"{name}={value}" for name, value in settings.items()
    )
