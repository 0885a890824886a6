"""`residua list` and `residua recipes`: what there is, and with which hyperparameters."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Annotated, Any, Literal

import typer

from residua.cli.console import out, show
from residua.measure import measures
from residua.recipes import UNLEARNING, Scale, unlearning
from residua.report import Table
from residua.unlearn import methods

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def listing(
    what: Annotated[Literal["methods", "measures"], typer.Argument(help="methods or measures.")] = "methods",
    as_json: AsJson = False,
) -> None:
    """Every way to unlearn, or to measure, with its settings."""
    entries: list[Any] = (
        list(methods().values()) if what == "methods" else [kind() for kind in measures().values()]
    )
    rows = [
        {
            "label": entry.label,
            "class": type(entry).__name__,
            "about": inspect.cleandoc(inspect.getmodule(type(entry)).__doc__ or "").split("\n")[0],
            "settings": dataclasses.asdict(entry),
        }
        for entry in entries
    ]
    if as_json:
        out.print_json(json.dumps(rows))
        return
    show(
        Table(
            title=f"residua {what}",
            columns=("Label", "About", "Settings"),
            rows=tuple((str(r["label"]), str(r["about"]), ", ".join(r["settings"])) for r in rows),
        )
    )


def recipes(
    scale: Annotated[Scale, typer.Option(help="Ours (tiny, small) or the paper's (full).")] = "full",
    as_json: AsJson = False,
) -> None:
    """Hyperparameters of every method: the paper's two tables, or ours for small networks.

    JSON is scenario -> data set -> network -> label -> field -> value; ours serve any data set and
    network, and are listed under `any`.
    """
    tables: dict[str, Any] = UNLEARNING
    if scale != "full":
        tables = {s: {"any": {"any": _ours(scale, s)}} for s in ("class", "random")}
    if as_json:
        out.print_json(json.dumps(tables))
        return
    for scenario, of_scenario in tables.items():
        for dataset, networks in of_scenario.items():
            for network, labels in networks.items():
                show(
                    Table(
                        title=f"{scenario} forgetting, {dataset}, {network}, {scale} scale",
                        columns=("Method", "Settings"),
                        rows=tuple(
                            (label, ", ".join(f"{k}={v}" for k, v in fields.items()))
                            for label, fields in labels.items()
                        ),
                    )
                )


def _ours(scale: Scale, scenario: str) -> dict[str, Any]:
    found = unlearning(scale, scenario, "any", "any")
    return {label: fields for label, fields in found.items() if label != "Retrain"}
