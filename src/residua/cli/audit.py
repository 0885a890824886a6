"""`residua audit`: did it forget?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from residua.audits.auditing import Audit, check_folder, kind_of_reference
from residua.audits.auditing import audit as run_audit
from residua.audits.evidence import BESIDE
from residua.audits.saved_files import read_features, read_outputs, read_saved
from residua.cli.console import out as console
from residua.cli.console import say, stages
from residua.cli.options import (
    CRITIC,
    CutsOption,
    DeviceOption,
    NetworkOption,
    TrustOption,
    choose_device,
    load_for,
    open_task,
    with_fields,
)
from residua.cli.preparing import introduction
from residua.cli.verify import files_of, together
from residua.cli.words import command_line
from residua.compare import Rules
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.files import check_place, file_hash, write_atomically
from residua.measure import Embedding, InformationCurve, Measure, Stress
from residua.report.audit_data import reference_role
from residua.report.plan import Plan
from residua.texts import seconds_of
from residua.training.recipes import Scale, pretraining

TsneOption = Annotated[
    bool,
    typer.Option("--tsne", help="Also show how each encoder sees some samples (t-SNE): a picture, no vote."),
]
MODEL_FILES = (".safetensors", ".pt", ".pth", ".npz")
EXIT = {"FORGOTTEN": 0, "UNDETERMINED": 2}


@with_fields(InformationCurve, leave_out=("blocks",), qualified=CRITIC, panel="The critics")
def audit(
    original: Annotated[
        str, typer.Option(metavar="FILE", help="Checkpoint (or saved file) of the model before.")
    ],
    unlearned: Annotated[
        str, typer.Option(metavar="FILE", help="Checkpoint (or saved file) of the model after.")
    ],
    reference: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer reads it at run time)
        typer.Option(
            metavar="FILE",
            help="Of a model that never saw the data. Repeat it (three to five times), or give a folder of such files, so "
            "that the audit knows how much retrained models differ. Or proxy:0.15, which trains one on that share of "
            "the retained data, proxy:0.15x3, which trains three, or none.",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME[:DIR]", help="As for `residua measure`.")
    ] = None,
    forget: Annotated[
        str | None, typer.Option("--forget", metavar="WHAT", help="As for `residua measure`.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write report.html, report.md, report.json and records to this folder."),
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
        Optional[float],  # noqa: UP045 (typer reads it at run time)
        typer.Option(
            help="Equivalence margin: the IDI's whole interval must be within +- this value, or within what retrained "
            "models differ by, to pass. By default 0.25, and 0.5 with one reference."
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the test of outputs.")] = Rules.level,
    utility: Annotated[float, typer.Option(help="Test accuracy, a share, that may be lost.")] = Rules.utility,
    stress: Annotated[
        bool,
        typer.Option(
            "--stress",
            help="Also report what comes back after fine-tuning, rounding, pruning and noise, of the references too; no vote.",
        ),
    ] = False,
    tsne: TsneOption = False,
    thumbnails: Annotated[
        bool,
        typer.Option(
            "--thumbnails",
            help="Show the samples that hold most of the residue as images; raw data, so only if whoever reads it may see them.",
        ),
    ] = False,
    by: Annotated[
        Optional[str],  # noqa: UP045 (typer reads it at run time)
        typer.Option(metavar="NAME", help="Who makes the audit; stands in the report."),
    ] = None,
    plan: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads it at run time)
        typer.Option(metavar="FILE", help="A file of `residua plan`: the audit is bound to it."),
    ] = None,
    scale: Annotated[Scale, typer.Option(help="Default hyperparameters that train a proxy.")] = "tiny",
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="After this, only what the verdict needs is measured."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of a proxy and of the random network; the critics have --critic-seed.")
    ] = 0,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False,
    junit: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads it at run time)
        typer.Option(
            metavar="FILE", help="Also write the verdict and what it rests on as JUnit XML, for CI."
        ),
    ] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Did it forget? Exit code 0: forgotten, 1: not forgotten (or ruined), 2: undetermined, 3: bad input, 70: internal error."""
    if out:
        check_folder(out)
    if junit:
        check_place(junit)
    asked = references_of(reference or ["none"])
    words = {"original": original, "unlearned": unlearned} | asked
    typed = words | {"data": data, "forget": forget, "network": network, "cuts": cuts, "device": device}
    typed |= {"by": by, "when": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"}
    given: dict[str, Any] = {
        "rules": Rules(margin=margin, level=level, utility=utility),
        "budget": None if budget is None else seconds_of(budget),
        "command": command_line(),
        "seed": seed,
        "typed": {name: word for name, word in typed.items() if word is not None} | _where(out),
    }
    task = None
    no_files = made_here(words["reference"])
    if plan is not None:
        given["plan"] = Plan.read(plan)
    if no_files:
        kind_of_reference(words["reference"])  # words that are not understood cost no loading
        given["reference"] = words.pop("reference")
    if outputs or features:
        if data or forget:
            raise InputError(
                "saved outputs and features carry their own labels; leave --data and --forget out"
            )
        others: dict[str, Any] = {"network": network, "cuts": cuts, "trust": trust or None, "budget": budget}
        others |= {"device": None if device == "auto" else device, "stress": stress or None, "plan": plan}
        others |= {"thumbnails": thumbnails or None, "tsne": tsne or None}
        _refuse_idle(others | {CRITIC.get(name, name): value for name, value in fields.items()})
        models = {role: _saved(files, outputs, features) for role, files in words.items()}
        given["typed"] |= _hashes(words)
        with stages():
            made = run_audit(**given | together(models))
    else:
        if not data or not forget:
            raise InputError("--data and --forget say what was to be forgotten; give both")
        where = choose_device(device)
        task = open_task(data, forget, list(words.values()))
        models = {
            role: load_for(task, Path(file), where, network, cuts, trust) for role, file in words.items()
        }
        given["typed"] |= _hashes(words)
        for line in introduction(task, models["original"]):
            say(line)
        if no_files and given["reference"] != "none":
            name = models["original"].architecture.get("network", "")
            given["pretraining"] = pretraining(scale, task.dataset, name)
        curve = dataclasses.replace(InformationCurve(), **fields)
        measures = beside(stress, tsne)
        with stages():
            made = run_audit(**given | together(models), task=task, curve=curve, measures=measures)
    _show(made, out, task if thumbnails else None, as_json)
    if junit:
        write_junit(made, junit)
    raise typer.Exit(EXIT.get(made.verdict, 1))


def _show(made: Audit, out: Path | None, thumbnails: ForgetTask | None, as_json: bool) -> None:
    """Save what was found, and print it: all of it where it is saved nowhere."""
    if out:
        made.save(out, thumbnails=thumbnails)
        say(f"The report and its records are in {out}/; open {out / 'report.html'}.")
    if as_json:
        console.print(made.report.model_dump_json(indent=1), markup=False)
    else:
        console.print(made.report.markdown() if not out else f"{made.verdict}\n{made.sentence}", markup=False)


def write_junit(made: Audit, path: Path) -> None:
    """The file of `--junit`, with the seconds that measuring took."""
    from residua.report.junit import junit

    spent = sum(
        seconds
        for record in made.records.values()
        for part, seconds in record.seconds.items()
        if "." not in part
    )
    text = junit(made.report, spent)
    write_atomically(path, lambda part: part.write_text(text, "utf-8"))


def beside(stress: bool, tsne: bool) -> tuple[Measure, ...]:
    """What is measured beside the verdict."""
    return (*BESIDE, *((Stress(),) if stress else ()), *((Embedding(),) if tsne else ()))


def references_of(words: list[str]) -> dict[str, str]:
    """The references that were typed, by role; a folder stands for the models and saved files in it."""
    files = [file for word in words for file in ([word] if made_here(word) else _files_in(word))]
    if len(files) > 1 and any(made_here(file) for file in files):
        raise InputError(
            f"--reference {next(filter(made_here, files))} stands alone; give files, proxy:0.15x3 or none"
        )
    return {reference_role(number): file for number, file in enumerate(files, start=1)}


def _files_in(word: str) -> list[str]:
    folder = Path(word)
    if not folder.is_dir() or (folder / "config.json").exists():
        return [word]  # a folder with a config.json is one model
    files = sorted(str(path) for path in folder.iterdir() if path.suffix in MODEL_FILES)
    if not files:
        raise InputError(
            f"--reference {word} is a folder without models ({', '.join(MODEL_FILES)}); give files or another folder"
        )
    return files


def made_here(word: str) -> bool:
    return word == "none" or word.startswith("proxy:")


def _where(out: Path | None) -> dict[str, str]:
    """The way from the folder of the report to where the command was typed."""
    return {} if out is None or out.is_absolute() else {"from": os.path.relpath(".", out)}


def _hashes(words: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """SHA-256 of each file that was typed, by role: by it others know which file was audited."""
    files = {role: files_of(word) for role, word in words.items() if not made_here(word)}
    return {
        "sha256": {
            role: file_hash(paths[0])
            for role, paths in files.items()
            if len(paths) == 1 and paths[0].is_file()
        }
    }


def _refuse_idle(options: Mapping[str, Any]) -> None:
    """Refuse what was given and would change nothing in an audit of saved files."""
    idle = [f"--{name.replace('_', '-')}" for name, word in options.items() if word is not None]
    if idle:
        raise InputError(f"{', '.join(idle)} would change nothing in an audit of saved files; leave them out")


def _saved(words: str, outputs: bool, features: bool) -> Any:
    if outputs and features:
        return read_saved(*files_of(words)).sampled()
    return read_outputs(words) if outputs else read_features(words).sampled()
