"""`residua recipes`: the hyperparameters of every method and of pretraining, the paper's and ours."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Optional

import typer

from residua.cli.console import out, show
from residua.cli.listing import settings_line
from residua.cli.words import AsJson
from residua.errors import InputError
from residua.report import Table
from residua.training.recipes import PAPER, UNLEARNING, Scale, pretraining, unlearning
from residua.unlearn import find

SCENARIOS = ("class", "random")
# A row of the tables that is not a method's.
PRETRAINING = "pretraining"


def recipes(
    scale: Annotated[Scale, typer.Option(help="Ours (tiny, small) or the paper's (full).")] = "full",
    method: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Only this method, or pretraining; may be repeated."),
    ] = None,
    dataset: Annotated[  # not `data`: nothing is opened
        Optional[str],  # noqa: UP045
        typer.Option("--data", help="Only this data set, such as cifar10."),
    ] = None,
    network: Annotated[Optional[str], typer.Option(help="Only this network, such as resnet18.")] = None,  # noqa: UP045
    scenario: Annotated[
        Optional[Literal["class", "random"]],  # noqa: UP045
        typer.Option(help="Only forgetting of whole classes, or of random samples."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hyperparameters of pretraining and of every method: the paper's tables, or ours for small networks.

    JSON is scenario -> data set -> network -> label -> field -> value. Ours serve any data set and network, and
    are listed under `any`.
    """
    labels = {PRETRAINING if word.lower() == PRETRAINING else find(word).label for word in method or []}
    chosen: dict[str, Any] = {}
    for of_scenario, of_data, of_network, rows in _tables(scale):
        filters = ((scenario, of_scenario), (dataset, of_data), (network, of_network))
        if any(wanted and there not in (wanted, "any") for wanted, there in filters):
            continue
        kept = {label: fields for label, fields in rows.items() if not labels or label in labels}
        if kept:
            chosen.setdefault(of_scenario, {}).setdefault(of_data, {})[of_network] = kept
    if not chosen:
        raise InputError(
            f"no recipe of the {scale} scale fits; see residua recipes --scale {scale} for all, or leave a filter out"
        )
    if as_json:
        out.print_json(json.dumps(chosen))
        return
    for of_scenario, datasets in chosen.items():
        for of_data, networks in datasets.items():
            for of_network, rows in networks.items():
                title = f"{of_scenario} forgetting, {of_data}, {of_network}, {scale} scale"
                lines = tuple((label, settings_line(fields)) for label, fields in rows.items())
                show(Table(title=title, columns=("Method", "Settings"), rows=lines))


def _tables(scale: Scale) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Scenario, data set, network, and the settings by label."""
    if scale != "full":
        first = {PRETRAINING: dataclasses.asdict(pretraining(scale, "any", "any"))}
        for scenario in SCENARIOS:
            yield scenario, "any", "any", first | _plain(unlearning(scale, scenario, "any", "any"))
        return
    for scenario, datasets in UNLEARNING.items():
        for data, networks in datasets.items():
            for network, rows in networks.items():
                before = PAPER.get((data, network))
                first = {PRETRAINING: dataclasses.asdict(before)} if before else {}
                yield scenario, data, network, first | rows


def _plain(rows: dict[str, Any]) -> dict[str, Any]:
    """Without methods whose only setting is the pretraining, which has a row of its own."""
    return {label: fields for label, fields in rows.items() if PRETRAINING not in fields}
