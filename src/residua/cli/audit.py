"""`residua audit`: did it forget? `residua verify`: does a saved audit follow from its records?"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.audit import TOLERANCE, Rerun, check_folder, check_model, check_task, read_records, read_report
from residua.audit import audit as run_audit
from residua.audit import rerun as run_rerun
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
from residua.saved import read_features, read_outputs, read_saved

EXIT = {"FORGOTTEN": 0, "UNDETERMINED": 2}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@with_fields(InformationCurve, leave_out=("blocks",))
def audit(
    original: Annotated[
        str, typer.Option(metavar="FILE", help="Checkpoint (or saved file) of the model before.")
    ],
    unlearned: Annotated[
        str, typer.Option(metavar="FILE", help="Checkpoint (or saved file) of the model after.")
    ],
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
        bool,
        typer.Option(
            "--features",
            help="The files are saved features (.npz); needs no --data. With --outputs: each file holds both, or two "
            "files are given as ONE.npz,OTHER.npz.",
        ),
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
    """Did it forget? Exit code 0: forgotten, 1: not (or ruined), 2: undetermined, 3: bad input, 70: crashed."""
    if out:
        check_folder(out)
    words = {"original": original, "unlearned": unlearned, "reference": reference}
    typed = words | {"data": data, "forget": forget, "network": network, "cuts": cuts, "device": device}
    given: dict[str, Any] = {
        "rules": Rules(margin=margin, level=level, utility=utility),
        "budget": None if budget is None else _seconds(budget),
        "command": command_line(),
        "typed": {name: word for name, word in typed.items() if word is not None} | _where(out),
    }
    if reference == "none" or reference.startswith("proxy:"):
        given["reference"] = words.pop("reference")
    if outputs or features:
        if data or forget:
            raise InputError(
                "saved outputs and features carry their own labels; leave --data and --forget out"
            )
        beside = {"network": network, "cuts": cuts, "trust": trust or None, "budget": budget}
        beside |= {"device": None if device == "auto" else device} | fields
        unused = [f"--{name.replace('_', '-')}" for name, word in beside.items() if word is not None]
        if unused:
            raise InputError(
                f"{', '.join(unused)} would change nothing in an audit of saved files; leave them out"
            )
        given |= {role: _saved(files, outputs, features) for role, files in words.items()}
        found = run_audit(**given)
    else:
        if not data or not forget:
            raise InputError("--data and --forget say what was to be forgotten; give both")
        where = choose_device(device)
        task = open_task(data, forget)
        given |= {
            role: load_for(task, Path(file), where, network, cuts, trust) for role, file in words.items()
        }
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
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Measure anew, from the models and the data, and compare.")
    ] = False,
    original: Annotated[str | None, typer.Option(metavar="FILE", help="Where it lies now.")] = None,
    unlearned: Annotated[str | None, typer.Option(metavar="FILE", help="Where it lies now.")] = None,
    reference: Annotated[str | None, typer.Option(metavar="FILE", help="Where it lies now.")] = None,
    data: Annotated[str | None, typer.Option(metavar="NAME[:DIR]", help="Where the data lie now.")] = None,
    forget: Annotated[
        str | None, typer.Option(metavar="WHAT", help="As it was typed for `residua audit`.")
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, mps, or auto; without it, as in the audit.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="How far readings of another machine may lie from the records'.")
    ] = TOLERANCE,
) -> None:
    """Recompute the hashes of a saved audit and every number that follows from its readings.

    With --rerun the readings themselves are measured anew. Only what has moved since, and code, has to be
    given: files are looked for where they were typed and beside the folder.

    Exit code 0: all of it holds, 1: something does not, 3: bad input, 70: crashed.
    """
    now = {"original": original, "unlearned": unlearned, "reference": reference, "data": data}
    now |= {"forget": forget, "network": network, "cuts": cuts, "device": device}
    typed = {name: word for name, word in now.items() if word is not None}
    if typed and not rerun:
        raise InputError(f"--{next(iter(typed))} is for measuring anew; add --rerun")
    found = run_verify(folder)
    _print(found)
    if found:
        raise typer.Exit(1)
    console.print("Hashes, verdict and every number follow from the records.", markup=False)
    if rerun:
        anew = _rerun(folder, typed, trust, tolerance)
        _print([*anew.notes, *anew.found, _moves(anew, tolerance)])
        if anew.found:
            raise typer.Exit(1)
        console.print(f"The readings made anew give the verdict {anew.verdict} again.", markup=False)
    true = "" if rerun else "that the readings are true (--rerun), "
    console.print(
        f"Not shown: {true}that the reference never saw the data, why measures were left out, and that the rules "
        "were chosen before the result was known.",
        markup=False,
    )


def _rerun(folder: Path, typed: dict[str, str], trust: bool, tolerance: float) -> Rerun:
    """What was typed then, where it lies now, and what was given now."""
    report, _ = read_report(folder)
    records = read_records(folder, report)
    kept = report.about.get("typed")
    then = (
        {name: word for name, word in kept.items() if isinstance(word, str)} if isinstance(kept, dict) else {}
    )
    roles = [role for role in ("original", "unlearned", "reference") if role in records]
    if report.against == "proxy":
        roles.remove("reference")
    needed = roles if report.tier != "weights" else [*roles, "data", "forget"]
    for name in ("reference", "data", "forget"):
        if name in typed and name not in needed:
            raise InputError(f"this audit was made without --{name}; leave it out")
    missing = [name for name in needed if name not in typed and name not in then]
    if missing:
        raise InputError(
            f"the report does not say where its models and data lie; give --{', --'.join(missing)}"
        )
    words = {name: typed[name] if name in typed else _lies(then[name], name, folder, then) for name in needed}
    if report.tier != "weights":
        models: dict[str, Any] = {role: read_saved(*_files(words[role])) for role in roles}
        for role, model in models.items():
            check_model(records[role], model, words[role])
        return run_rerun(folder, **models, tolerance=tolerance)
    network = typed.get("network", then.get("network"))
    if network and ":" in network and "network" not in typed:
        raise InputError(
            f"the network of the audit is {network}, which is code that is not run on a report's word; "
            f"give --network {network}"
        )
    where = choose_device(typed.get("device", then.get("device", "auto")))
    task = open_task(words["data"], words["forget"])
    check_task(records["unlearned"], task)
    models = {}
    for role in roles:
        cuts = typed.get("cuts", then.get("cuts"))
        models[role] = load_for(task, Path(words[role]), where, network, cuts, trust)
        check_model(records[role], models[role], words[role])
    with training_bar("rerun"):
        return run_rerun(folder, **models, task=task, tolerance=tolerance)


def _moves(found: Rerun, tolerance: float) -> str:
    if found.equal:
        return f"Measured anew: {found.readings} readings are equal to the last bit."
    if not found.moved:
        return f"Measured anew: {found.readings} readings are equal, but not the arrays behind them."
    most = max(found.moved, key=lambda name: found.moved[name])
    return (
        f"Measured anew: {len(found.moved)} of {found.readings} readings moved, at most by {found.moved[most]:.2g} ({most}); "
        f"{tolerance:g} is allowed, as a share of what is above 1."
    )


def _print(lines: list[str]) -> None:
    for line in lines:
        console.print(line, markup=False)


def _where(out: Path | None) -> dict[str, str]:
    """The way from the folder of the report to where the command was typed."""
    return {} if out is None or out.is_absolute() else {"from": os.path.relpath(".", out)}


def _lies(words: str, name: str, folder: Path, then: dict[str, str]) -> str:
    """Where that which was typed lies now: as seen from the folder of the report, from here, or beside the folder."""
    if name in ("data", "forget"):
        kind, _, place = words.partition(":")
        on_disk = name == "data" or kind == "indices"
        return f"{kind}:{_lies(place, '', folder, then)}" if place and on_disk else words
    places = [Path(words), folder.parent / Path(words).name]
    if "from" in then:
        places.insert(0, Path(os.path.normpath(folder / then["from"] / words)))
    there = next(filter(_is_there, places), None)
    if there is None and "," in words:
        return ",".join(_lies(word, name, folder, then) for word in words.split(","))
    return str(there or words)


def _files(words: str) -> list[Path]:
    """One file or several with commas between them; a name that has a comma is one."""
    return [Path(words)] if _is_there(Path(words)) else [Path(word) for word in words.split(",")]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _saved(words: str, outputs: bool, features: bool) -> Any:
    if outputs and features:
        return read_saved(*_files(words))
    return read_outputs(words) if outputs else read_features(words)


def _seconds(words: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", words.strip())
    if not found or not float(found[1]):
        raise InputError(f"--budget {words!r} is not understood; write 90s, 2m or 1h")
    return float(found[1]) * UNITS[found[2] or "s"]
