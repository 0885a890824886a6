"""`residua audit`: did it forget? `residua verify`: does a saved audit follow from its records?"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.audit import audit as run_audit
from residua.audit import check_folder
from residua.audit import verify as run_verify
from residua.cli.console import out as console
from residua.cli.console import say, training_bar
from residua.cli.options import (
    CutsOption,
    DeviceOption,
    NetworkOption,
    TrustOption,
    choose_device,
    command_line,
    load_for,
    open_task,
    with_fields,
)
from residua.compare import Rules
from residua.errors import InputError
from residua.measure import InformationCurve
from residua.recipes import Scale, pretraining
from residua.saved import read_features, read_outputs

EXIT = {"FORGOTTEN": 0, "UNDETERMINED": 2}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@with_fields(InformationCurve, leave_out=("blocks",))
def audit(
    original: Annotated[Path, typer.Option(help="Checkpoint (or saved file) of the model before.")],
    unlearned: Annotated[Path, typer.Option(help="Checkpoint (or saved file) of the model after.")],
    reference: Annotated[
        str,
        typer.Option(
            help="Of a model that never saw the data; or proxy:0.15, which trains one on that share of the "
            "retained data; or none."
        ),
    ] = "none",
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME[:DIR]", help="As for `residua measure`.")
    ] = None,
    forget: Annotated[
        str | None, typer.Option("--forget", metavar="WHAT", help="As for `residua measure`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write report.json, report.md and records to this folder.")
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="The files are saved outputs (.npz); needs no --data.")
    ] = False,
    features: Annotated[
        bool, typer.Option("--features", help="The files are saved features (.npz); needs no --data.")
    ] = False,
    margin: Annotated[
        float, typer.Option(help="How far from the reference's 0 an IDI may lie.")
    ] = Rules.margin,
    level: Annotated[float, typer.Option(help="Level of the test of outputs.")] = Rules.level,
    utility: Annotated[float, typer.Option(help="Test accuracy, a share, that may be lost.")] = Rules.utility,
    scale: Annotated[Scale, typer.Option(help="Whose settings train a proxy.")] = "tiny",
    budget: Annotated[
        str | None,
        typer.Option(metavar="90s|2m|1h", help="After this, only what the verdict needs is measured."),
    ] = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Did it forget? Exit code 0: forgotten, 1: not (or ruined), 2: undetermined, 3: bad input."""
    if out:
        check_folder(out)
    if outputs and features:
        raise InputError("--outputs and --features were both given; choose one")
    given: dict[str, Any] = {
        "rules": Rules(margin=margin, level=level, utility=utility),
        "budget": None if budget is None else _seconds(budget),
        "command": command_line(),
    }
    a_file = reference != "none" and not reference.startswith("proxy:")
    paths = {"original": original, "unlearned": unlearned}
    if a_file:
        paths["reference"] = Path(reference)
    else:
        given["reference"] = reference
    if outputs or features:
        if data or forget:
            raise InputError(
                "saved outputs and features carry their own labels; leave --data and --forget out"
            )
        read = read_outputs if outputs else read_features
        given |= {role: read(path) for role, path in paths.items()}
        found = run_audit(**given)
    else:
        if not data or not forget:
            raise InputError("--data and --forget say what was to be forgotten; give both")
        where = choose_device(device)
        task = open_task(data, forget)
        given |= {role: load_for(task, path, where, network, cuts, trust) for role, path in paths.items()}
        if reference.startswith("proxy:"):
            name = given["original"].architecture.get("network", "")
            given["pretraining"] = pretraining(scale, task.dataset, name)
        curve = dataclasses.replace(InformationCurve(), **fields)
        with training_bar("audit"):
            found = run_audit(**given, task=task, curve=curve)
    if out:
        found.save(out)
        say(f"The report and its records are in {out}/.")
    if as_json:
        console.print(found.report.model_dump_json(indent=1), markup=False)
    else:
        console.print(
            found.report.markdown() if not out else f"{found.verdict}\n{found.sentence}", markup=False
        )
    raise typer.Exit(EXIT.get(found.verdict, 1))


def verify(
    folder: Annotated[Path, typer.Argument(help="The folder that `residua audit --out` wrote.")],
) -> None:
    """Recompute the hashes of a saved audit and every number that follows from its readings.

    Exit code 0: all of it follows, 1: something does not, 3: bad input.
    """
    found = run_verify(folder)
    for line in found:
        console.print(line, markup=False)
    if found:
        raise typer.Exit(1)
    console.print("Hashes, verdict and every number follow from the records.", markup=False)


def _seconds(words: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", words.strip())
    if not found or not float(found[1]):
        raise InputError(f"--budget {words!r} is not understood; write 90s, 2m or 1h")
    return float(found[1]) * UNITS[found[2] or "s"]
