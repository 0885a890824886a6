"""`residua verify`: whether a saved audit follows from its records, and whether its models still give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from residua.audits.verifying import SAME_MACHINE, TOLERANCE, changes, read_records, read_report
from residua.audits.verifying import verify as run_verify
from residua.cli import options as opt
from residua.cli.console import echo, work
from residua.errors import LONGEST_SENTENCE, InputError, printable
from residua.files import read_text
from residua.report.pages import PAGE, THUMBNAILS, drawn_elsewhere
from residua.report.plan import Plan, departures
from residua.report.text import easier, laxer
from residua.roles import reference_role, references_in

if TYPE_CHECKING:  # checking is arithmetic on records; only --rerun needs PyTorch
    from residua.audits.rerunning import Rerun
    from residua.data.preprocessing import Preprocessing
    from residua.record import Record

# Number of faults that are printed: the author of a forged report decides how many there are.
MOST_LINES = 20

Moved = Annotated[str | None, opt.models("New path, if the file has moved since the audit.", metavar="FILE")]


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `residua audit --out` wrote.")],
    later: Annotated[
        Path | None,
        typer.Argument(metavar="LATER", help="A later audit, to say what changed since; it is checked too."),
    ] = None,
    rerun: Annotated[bool, opt.run("Measure again, from the models and the data, and compare.", "--rerun")] = False,
    original: Moved = None,
    unlearned: Moved = None,
    reference: Annotated[
        list[str] | None,
        opt.models("New path, if the file has moved; repeated, in the order of the audit.", metavar="FILE"),
    ] = None,
    init: Moved = None,
    data: Annotated[
        str | None, opt.data("New place, if the data have moved since the audit.", metavar="NAME[:PLACE]")
    ] = None,
    forget: Annotated[
        str | None,
        opt.data("Data that were to be forgotten, such as class:6, if the report does not say it.", metavar="WHAT"),
    ] = None,
    network: opt.Network = None,
    cuts: opt.Cuts = None,
    trust: opt.Trust = False,
    device: Annotated[
        str | None,
        opt.run("cpu, cuda, cuda:1, mps, or auto: a GPU where there is one.", show_default="as in the audit"),
    ] = None,
    tolerance: Annotated[
        float | None,
        opt.run(
            "Largest tolerated difference between readings measured again and the records'.",
            show_default=f"{SAME_MACHINE} with the records' software and kind of processor, else {TOLERANCE}",
        ),
    ] = None,
    plan: Annotated[
        Path | None, opt.rules("Plan that was published; an audit that departs from it does not hold.", metavar="FILE")
    ] = None,
) -> None:
    """Check a saved audit: recompute its hashes and every number that follows from its readings.

    With --rerun the readings themselves are measured again. Only what has moved since, and code, has to be
    given: files are looked for where they were typed and beside the folder.

    Exit code 0: all of it holds, 1: something does not, 3: bad input, 70: internal error.

    With two folders it says what changed from the first audit to the second: model, task, rules, verdict, IDI.

    Example: residua verify audit/ --rerun
    """
    now = {"original": original, "unlearned": unlearned, "init": init, "data": data}
    now |= {reference_role(number): file for number, file in enumerate(reference or [], start=1)}
    now |= {"forget": forget, "network": network, "cuts": cuts, "device": device}
    typed = {name: word for name, word in now.items() if word is not None}
    if typed and not rerun:
        raise InputError(f"--{next(iter(typed))} is for measuring again; add --rerun")
    for each in filter(None, (folder, later)):
        faults = run_verify(each) or _departures(each, plan)
        _print([f"{each}: {fault}" for fault in faults] if later else faults)
        if faults:
            raise typer.Exit(1)
    echo("Hashes, verdict and every number follow from the records.")
    if later is not None:
        _print(changes(read_report(folder), read_report(later)))
    _print(_of_page(folder))
    report = read_report(folder)
    _print([*laxer(report.rules, len(references_in(report.records))), *easier(report.about["measures"])])
    _print([f"Not assessed: {name} ({why})." for name, why in report.not_assessed.items()])
    if rerun:
        again = _rerun(folder, typed, trust, tolerance)
        _print([*again.notes, *again.found])
        _print([_moves(again)])
        if again.found:
            raise typer.Exit(1)
        echo(f"The readings made again give the verdict {again.verdict}.")
    if plan is not None:
        echo(f"The audit follows the plan {plan}.")
    elif "plan" in report.about:
        echo("The audit follows the plan whose hash is in report.md; compare it with the one published (--plan FILE).")
    shown = "that thumbnails are of those images, " if (folder / THUMBNAILS).exists() else ""
    true = "" if rerun else "that the readings are true (--rerun), "
    echo(
        f"Not shown: {true}{shown}that the reference never saw the data, why measures were left out, and that the rules "
        "were chosen before the result was known."
    )


def _departures(folder: Path, plan: Path | None) -> list[str]:
    """Departures of the audit from the plan in this file, whether or not its report names one."""
    if plan is None:
        return []
    report = read_report(folder)
    wrong = departures(Plan.read(plan), read_records(folder, report), report.rules)
    return [f"the audit departs from {plan}: {each}" for each in wrong]


def _of_page(folder: Path) -> list[str]:
    """Checks of the page, if there is one."""

    if not (folder / PAGE).exists():
        return []
    but = " but for its figures, which another version drew" if drawn_elsewhere(read_text(folder / PAGE)) else ""
    return [f"{PAGE} is the page that they give{but}."]


def _rerun(folder: Path, typed: dict[str, str], trust: bool, tolerance: float | None) -> Rerun:
    """Arguments of the audit, their present places, and arguments given now."""
    from residua.audits.auditing import draw_start
    from residua.audits.rerunning import check_model, check_task
    from residua.audits.rerunning import rerun as run_rerun
    from residua.audits.saved import read_saved
    from residua.cli.inputs import announce, choose_device, load_for, open_task
    from residua.models.checkpoint import Checkpoint

    report = read_report(folder)
    records = read_records(folder, report)
    kept = report.about.get("typed")
    then = {name: word for name, word in kept.items() if isinstance(word, str)} if isinstance(kept, dict) else {}
    references = references_in(records) if report.against == "model" else []
    roles = ["original", "unlearned", *references]
    needed = roles if report.tier != "weights" else [*roles, "data", "forget", *["init"] * ("start" in records)]
    _refuse_strange(typed, needed, len(references))
    missing = [name for name in needed if name not in typed and name not in then]
    if missing:
        raise InputError(f"the report does not say where its models and data are; give --{', --'.join(missing)}")
    words = {name: typed[name] if name in typed else _now_at(then[name], name, folder, then) for name in needed}
    if report.tier != "weights":
        models: dict[str, Any] = {role: read_saved(*opt.files_of(words[role])).sampled() for role in roles}
        for role, model in models.items():
            check_model(records[role], model, words[role])
        hashes = opt.file_hashes({role: words[role] for role in roles})
        with work():
            return run_rerun(folder, **opt.as_kwargs(models), tolerance=tolerance, files=hashes)
    network = typed.get("network", then.get("network"))
    if network and ":" in network and "network" not in typed:
        raise InputError(
            f"the network of the audit is {network}, which is code that is not run on a report's word; "
            f"give --network {network}"
        )
    where = choose_device(typed.get("device", then.get("device", "auto")))
    files = [words[role] for role in roles]
    as_named = _named_as_then(words["data"], records["unlearned"])
    task = open_task(as_named, words["forget"], files, _shown(records["unlearned"]))
    check_task(records["unlearned"], task)
    models, hashes = {}, {}
    for role in roles:
        cuts, file = typed.get("cuts", then.get("cuts")), Checkpoint(words[role])
        models[role], hashes[role] = load_for(task, file, where, network, cuts, trust), file.sha256
        check_model(records[role], models[role], words[role])
    if "init" in words:
        file, seed = Checkpoint(words["init"]), records["unlearned"].seeds.get("audit", 0)
        models["start"], hashes["start"] = draw_start(models["original"], file, seed, trust), file.sha256
    announce(where)
    with work():
        return run_rerun(folder, **opt.as_kwargs(models), task=task, tolerance=tolerance, files=hashes)


def _refuse_strange(typed: dict[str, str], needed: list[str], references: int) -> None:
    """Refuse a new place of what the audit did not have."""
    for name in (*references_in(typed), "data", "forget", "init"):
        if name in typed and name not in needed:
            plain = "reference" if name.startswith("reference") else name
            counted = plain == "reference" and references
            fewer = f"with {references} references" if counted else f"without --{plain}"
            raise InputError(f"this audit was made {fewer}; leave it out")


def _shown(record: Record) -> Preprocessing | None:
    """The size and normalisation of the audit, where its record says them."""
    from residua.data.preprocessing import from_checkpoint

    task = record.setting.task
    return None if task is None else from_checkpoint(task.model_dump())


def _named_as_then(words: str, record: Record) -> str:
    """The words of --data with the name of the audit: a file that was renamed holds the same data, or the hashes differ."""
    from residua.data.parsing import split_settings, with_settings

    then = record.setting.task.dataset if record.setting.task else None
    named = with_settings(words, name=then)
    return (
        named
        if split_settings(words)[1].get("name") is None and split_settings(named)[1].get("name") == then
        else words
    )


def _moves(again: Rerun) -> str:
    if again.equal:
        return f"Measured again: {again.readings} readings are equal to the last bit."
    if not again.moved:
        return f"Measured again: {again.readings} readings are equal, but not the arrays behind them."
    most = max(again.moved, key=lambda name: again.moved[name])
    return (
        f"Measured again: {len(again.moved)} of {again.readings} readings moved, at most by {again.moved[most]:.2g} ({most}); "
        f"{again.tolerance:g} is allowed, as a share of what is above 1."
    )


def _print(lines: list[str]) -> None:
    for line in lines[:MOST_LINES]:
        echo(printable(line, LONGEST_SENTENCE))
    if len(lines) > MOST_LINES:
        echo(f"... and {len(lines) - MOST_LINES} more")


def _now_at(words: str, name: str, folder: Path, then: dict[str, str]) -> str:
    """Present place of a typed path: seen from the folder of the report, from here, or beside the folder."""
    if name in ("data", "forget"):
        from residua.data.parsing import split_settings, with_settings

        words, settings = split_settings(words)
        kind, _, place = words.partition(":")
        on_disk = name == "data" or kind == "indices"
        found = f"{kind}:{_now_at(place, '', folder, then)}" if place and on_disk else words
        return with_settings(found, **settings)
    places = [Path(words), folder.parent / Path(words).name]
    if "from" in then:
        places.insert(0, Path(os.path.normpath(folder / then["from"] / words)))
    there = next(filter(opt.exists, places), None)
    if there is None and "," in words:
        return ",".join(_now_at(word, name, folder, then) for word in words.split(","))
    return str(there or words)
