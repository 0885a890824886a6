"""`residua explain`: what a metric means, or what a method does."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Optional

import typer

from residua.cli import declared
from residua.cli.console import out, show
from residua.cli.words import AsJson, PluginOption
from residua.compare.explanations import explained, explanation, explanations
from residua.errors import InputError
from residua.explaining import Explanation
from residua.report.table import Table

LINES = {
    "definition": "What",
    "formula": "Formula",
    "range": "Range",
    "unit": "Unit",
    "better": "Better",
    "ideal": "Ideal",
    "blind": "Cannot see",
    "elsewhere": "Elsewhere",
    "source": "Source",
}


def explain(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="A metric, such as UA, MIA or IDI, or a method, such as COLA."),
    ] = None,
    plugin: PluginOption = None,
    as_json: AsJson = False,
) -> None:
    """What a metric means and cannot see, or what a method does, with its settings."""
    declared.measures()  # the metrics of plug-ins are known from here on
    if name is None:
        if as_json:
            out.print_json(json.dumps([dataclasses.asdict(entry) for entry in explanations()]))
        else:
            show(_list())
        return
    method = None if explained(name) else declared.method(name)
    if method:
        _method(method, as_json)
        return
    try:
        entry = explanation(name)
    except InputError as error:
        labels = ", ".join(each.label for each in declared.methods())
        raise InputError(f"{error}; or a method: {labels}") from None
    _metric(entry, as_json)


def _metric(entry: Explanation, as_json: bool) -> None:
    of_measures = {label: declared.measure(label) for label in entry.measures}
    if as_json:
        settings = {
            label: {"label": label, "class": entry.kind} | entry.settings
            for label, entry in of_measures.items()
        }
        out.print_json(json.dumps(dataclasses.asdict(entry) | {"settings": settings}))
        return
    box = "a cost" if entry.box == "cost" else f"{entry.box}-box"
    out.print(f"{entry.name}: {entry.title} ({box})", markup=False, style="bold")
    for field, word in LINES.items():
        if text := getattr(entry, field):
            out.print(f"{word + ':':<12}{text}", markup=False)
    out.print(f"{'Needs:':<12}{_needs(entry)}", markup=False)
    for label, measure in of_measures.items():
        if measure.settings:
            own = ", ".join(f"{key} {value}" for key, value in measure.settings.items())
            out.print(f"{'Settings:':<12}{measure.kind} ({label}): {own}", markup=False)


def _method(method: declared.Declared, as_json: bool) -> None:
    if as_json:
        out.print_json(json.dumps(dataclasses.asdict(method)))
        return
    out.print(f"{method.label}: {method.about}", markup=False, style="bold")
    out.print(method.text, markup=False)
    rows = tuple((name, _value(value), method.help[name]) for name, value in method.settings.items())
    if rows:
        show(Table("Settings", ("Name", "Default", "Meaning"), rows))
    out.print(
        f"Run it: residua unlearn {method.label} --help. The paper's settings: residua recipes --method {method.label}.",
        markup=False,
    )


def _value(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _needs(entry: Explanation) -> str:
    if not entry.measures:
        return "more than a checkpoint: the method that made the model"
    models = f" {'or' if entry.either else 'and'} ".join(f"--{other}" for other in entry.against)
    return f"the model{' with ' + models if models else ''}"


def _list() -> Table:
    rows = tuple((entry.name, entry.title, entry.box, entry.better) for entry in explanations())
    note = "More: residua explain NAME. Methods: residua list."
    return Table("Metrics", ("Name", "Title", "Box", "Better"), rows, note)
