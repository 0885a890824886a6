"""`residua explain`: what a metric means."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from residua.cli.console import out, show
from residua.explanations import EXPLANATIONS, Explanation, explanation
from residua.measure import measures
from residua.record import describe
from residua.report import Table

LINES = {
    "definition": "What",
    "formula": "Formula",
    "range": "Range",
    "better": "Better",
    "ideal": "Ideal",
    "blind": "Cannot see",
    "elsewhere": "Elsewhere",
    "source": "Source",
}


def explain(
    name: Annotated[str | None, typer.Argument(help="A metric, such as UA, MIA or IDI.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What a metric means, which side is better, what it cannot see, and its settings."""
    if name is None:
        if as_json:
            out.print_json(json.dumps([dataclasses.asdict(entry) for entry in EXPLANATIONS]))
        else:
            show(_list())
        return
    entry = explanation(name)
    settings = {label: describe(measures()[label]()) for label in entry.measures}
    if as_json:
        out.print_json(json.dumps(dataclasses.asdict(entry) | {"settings": settings}))
        return
    box = "a cost" if entry.box == "cost" else f"{entry.box}-box"
    out.print(f"{entry.name}: {entry.title} ({box})", markup=False, style="bold")
    for field, word in LINES.items():
        if text := getattr(entry, field):
            out.print(f"{word + ':':<12}{text}", markup=False)
    out.print(f"{'Needs:':<12}{_needs(entry)}", markup=False)
    for label, fields in settings.items():
        own = ", ".join(f"{key} {value}" for key, value in fields.items() if key not in ("label", "class"))
        if own:
            out.print(f"{'Settings:':<12}{fields['class']} ({label}): {own}", markup=False)


def _needs(entry: Explanation) -> str:
    if not entry.measures:
        return "more than a checkpoint: the method that made it"
    models = f" {'or' if entry.either else 'and'} ".join(f"--{other}" for other in entry.against)
    return f"the model{' with ' + models if models else ''}"


def _list() -> Table:
    rows = tuple((entry.name, entry.title, entry.box, entry.better) for entry in EXPLANATIONS)
    return Table("Metrics", ("Name", "Title", "Box", "Better"), rows, "More: residua explain NAME.")
