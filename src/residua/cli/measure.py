"""`residua measure`: what one or several models say about the forgotten data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from residua.cli.console import out, show
from residua.cli.options import (
    CutsOption,
    DataOption,
    DeviceOption,
    ForgetOption,
    NetworkOption,
    TrustOption,
    choose_device,
    load_for,
    open_task,
)
from residua.measure import Accuracy
from residua.report import Table


def measure(
    models: Annotated[
        list[Path], typer.Argument(help="Checkpoints (.safetensors, .pt, .pth).", metavar="MODEL...")
    ],
    data: DataOption,
    forget: ForgetOption,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, shares in [0, 1].")] = False,
) -> None:
    """UA, RA and TA of each model."""
    where = choose_device(device)
    task = open_task(data, forget)
    loaded = [(path, load_for(task, path, where, network, cuts, trust)) for path in models]
    readings = [(path.stem, dict(Accuracy()(model, task).values)) for path, model in loaded]
    if as_json:
        out.print_json(json.dumps([{"model": name} | values for name, values in readings]))
        return
    show(
        Table(
            title=f"{task.dataset}, {len(task.forget)} examples forgotten",
            columns=("Model", "UA %", "RA %", "TA %"),
            rows=tuple((name, *(f"{100 * v[k]:.1f}" for k in ("UA", "RA", "TA"))) for name, v in readings),
        )
    )
