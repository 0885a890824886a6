"""`residua plan`: write down what an audit will test, before the model is looked at."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from residua.audits.planning import planned
from residua.cli.audit import TsneOption, beside, made_here, references_of
from residua.cli.console import out as console
from residua.cli.options import (
    CRITIC,
    CutsOption,
    DataOption,
    DeviceOption,
    ForgetOption,
    NetworkOption,
    TrustOption,
    choose_device,
    load_for,
    open_task,
    with_fields,
)
from residua.compare import Rules
from residua.files import check_place
from residua.measure import InformationCurve


@with_fields(InformationCurve, leave_out=("blocks",), qualified=CRITIC, panel="The critics")
def plan(
    original: Annotated[str, typer.Option(metavar="FILE", help="Checkpoint of the model before.")],
    data: DataOption,
    forget: ForgetOption,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("plan.json"),
    reference: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer reads it at run time)
        typer.Option(metavar="FILE", help="As for `residua audit`: files, a folder, proxy:0.15x3 or none."),
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    margin: Annotated[
        Optional[float],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Equivalence margin, as for `residua audit`."),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the test of outputs.")] = Rules.level,
    utility: Annotated[float, typer.Option(help="Test accuracy, a share, that may be lost.")] = Rules.utility,
    stress: Annotated[bool, typer.Option("--stress", help="As for `residua audit`.")] = False,
    tsne: TsneOption = False,
    seed: Annotated[int, typer.Option(help="Seed of a proxy and of the random network.")] = 0,
    device: DeviceOption = "auto",
    *,
    fields: dict[str, Any],
) -> None:
    """Write what an audit will test: rules, measures, seeds, and hashes of data, Original and references.

    Publish the hash that is printed, then run `residua audit --plan FILE`, which refuses to depart from it.
    """
    check_place(out)
    where = choose_device(device)
    task = open_task(data, forget)
    words = references_of(reference or ["none"])
    models = {
        role: load_for(task, Path(file), where, network, cuts, trust)
        for role, file in words.items()
        if not made_here(file)
    }
    made = planned(
        original=load_for(task, Path(original), where, network, cuts, trust),
        reference=list(models.values()) or words["reference"],
        task=task,
        rules=Rules(margin=margin, level=level, utility=utility),
        curve=dataclasses.replace(InformationCurve(), **fields),
        measures=beside(stress, tsne),
        seed=seed,
    )
    made.write(out)
    console.print(f"{made.sha256}  {out}", markup=False)
