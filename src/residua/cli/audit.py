"""`residua audit`: did the model forget? And the plan of an audit, before the model is looked at."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.audits import auditing, saved
from residua.cli import options as opt
from residua.cli.console import echo, say, work, write_text
from residua.cli.inputs import CRITIC, announce, choose_device, load_for, open_task, with_critics
from residua.compare import Rules
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Embedding, InformationCurve, Stress
from residua.measure._outputs import logits
from residua.measure.structure import canonical_form
from residua.models.checkpoint import Checkpoint, save
from residua.models.classifier import Classifier
from residua.models.foreign.fitting import starting_weights
from residua.report.junit import junit as junit_xml
from residua.report.junit import measuring_seconds
from residua.report.plan import Plan
from residua.text import seconds_of
from residua.training.recipes import Scale, pretraining

EXIT = {"FORGOTTEN": 0, "UNDETERMINED": 2}
PLAN = Path("plan.json")


@with_critics
def audit(
    original: Annotated[str, opt.models("Checkpoint (or saved file) of the model before unlearning.", metavar="FILE")],
    unlearned: Annotated[
        list[str] | None,
        opt.models(
            "Checkpoint (or saved file) of the model after unlearning: the one that is audited. Repeat to audit "
            "several; Original and references are measured once.",
            metavar="FILE",
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        opt.models(
            "Checkpoint of a model retrained without the forgotten data. Repeat five times, or give a "
            "directory. Or proxy:0.15, which trains one on that fraction of the retained data, "
            "proxy:0.15x3, which trains three, or none.",
            metavar="FILE",
            show_default="none",
        ),
    ] = None,
    data: Annotated[
        str | None,
        opt.data(
            "Data set: fashion-sample; one of fashion-mnist, mnist, cifar10, cifar100, parquet, "
            "image-folder, hf-datasets with its folder; npz or csv with its file.",
            "--data",
            metavar="NAME[:PLACE]",
        ),
    ] = None,
    forget: Annotated[
        str | None,
        opt.data(
            "Data to forget: class:6, classes:1,2, samples:50 (per class; samples:50:SEED), or indices:FILE "
            "(JSON list, .npy, or one number per line).",
            "--forget",
            metavar="WHAT",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        opt.output(
            "Write report.html, report.md, report.json and records to this folder; of several models, to one folder "
            "in it for each, named after its file.",
            metavar="DIR",
        ),
    ] = None,
    network: opt.Network = None,
    cuts: opt.Cuts = None,
    init: opt.Started = None,
    trust: opt.Trust = False,
    outputs: Annotated[bool, opt.models("The files are saved outputs (.npz); needs no --data.", "--outputs")] = False,
    features: Annotated[
        bool,
        opt.models(
            "The files are saved features (.npz); needs no --data. With --outputs: each file holds both, or "
            "two files are given as ONE.npz,OTHER.npz.",
            "--features",
        ),
    ] = False,
    margin: opt.Margin = None,
    level: Annotated[float, opt.rules("Significance level of the output test.")] = Rules.level,
    utility: Annotated[float, opt.rules("Largest tolerated drop in test accuracy (0 to 1).")] = Rules.utility,
    allow_structure: Annotated[
        str,
        opt.rules(
            "Reason why the model may have another structure than Original, printed in the report; without one, "
            "another structure is never FORGOTTEN.",
            "--allow-structure",
            metavar="REASON",
            show_default=False,
        ),
    ] = "",
    plan: Annotated[
        Path | None,
        opt.rules(
            "Plan that the audit is bound to; with --plan-only, the file to write.",
            metavar="FILE",
            show_default="plan.json with --plan-only",
        ),
    ] = None,
    plan_only: Annotated[
        bool,
        opt.rules(
            "Only write the plan: rules, measures, seeds, and hashes of data, original and references. "
            "Publish the hash that is printed, then audit with --plan FILE.",
            "--plan-only",
        ),
    ] = False,
    stress: Annotated[
        bool,
        opt.extras(
            "Also report what comes back after fine-tuning, rounding, pruning and noise, of the references "
            "too; no effect on the verdict.",
            "--stress",
        ),
    ] = False,
    tsne: Annotated[
        bool, opt.extras("Also draw the features of some samples (t-SNE); no effect on the verdict.", "--tsne")
    ] = False,
    thumbnails: Annotated[
        bool,
        opt.output(
            "Show the samples that hold most of the residue as images. Embeds raw images: use only if "
            "readers may see them.",
            "--thumbnails",
        ),
    ] = False,
    records: Annotated[
        bool,
        opt.output(
            "Write the records, which hold outputs and features of the models on single samples; without them the "
            "report cannot be verified."
        ),
    ] = True,
    release: Annotated[
        Path | None,
        opt.output(
            "Write the model in canonical form (weights rounded to bfloat16, without those that no input uses) and audit "
            "that file: it is the one to release.",
            metavar="FILE",
        ),
    ] = None,
    by: Annotated[str | None, opt.output("Auditor's name, printed in the report.", metavar="NAME")] = None,
    as_json: Annotated[bool, opt.output("Print report.json.", "--json")] = False,
    junit: Annotated[
        Path | None, opt.output("Also write the verdict and what it rests on as JUnit XML, for CI.", metavar="FILE")
    ] = None,
    scale: Annotated[Scale, opt.run("Default hyperparameters that train a proxy.")] = "tiny",
    budget: Annotated[
        str | None, opt.run("After this time (90s, 10m, 2h), measure only what the verdict needs.", metavar="TIME")
    ] = None,
    precision: Annotated[
        float | None,
        opt.run(
            "Look at 10, 30 and 100 % of the retained and test samples; end with the first look that has a verdict or whose "
            "IDI is known within this half-width, such as 0.05. The looks together keep the levels of the rules.",
            metavar="HALF-WIDTH",
        ),
    ] = None,
    seed: Annotated[
        int,
        opt.run("Seed of a proxy, of the random network, and of noisy and moved images; critics have --critic-seed."),
    ] = 0,
    device: opt.Device = "auto",
    *,
    fields: dict[str, Any],
) -> None:
    """Decide whether a model has forgotten: compare it with the original and with retrained models.

    Exit code 0: forgotten, 1: not forgotten (or ruined), 2: undetermined, 3: bad input, 70: internal error. Of
    several models, 1 if one has 1, else 2 if one has 2.

    Example: residua audit --original original.safetensors --unlearned unlearned.safetensors --reference references/ --data
    fashion-sample --forget class:6 --out audit/
    """
    rules = Rules(margin=margin, level=level, utility=utility, structure=allow_structure)
    curve = dataclasses.replace(InformationCurve(), **fields)
    measures = (*auditing.EXTRA_MEASURES, *((Stress(),) if stress else ()), *((Embedding(),) if tsne else ()))
    references = opt.references_by_role(reference or ["none"])
    init = None if init is None else str(starting_weights(init, Path(original).parent))
    opened = partial(_opened, data=data, forget=forget, device=device, network=network, cuts=cuts, trust=trust)
    if plan_only:
        idle = {"unlearned": unlearned, "out": out, "junit": junit, "budget": budget, "outputs": outputs,
                "features": features, "thumbnails": thumbnails, "release": release, "precision": precision,
                "init": init}  # fmt: skip
        _refuse_idle(idle, "in a plan, which is written before the model is looked at")
        asked = {"rules": rules, "curve": curve, "measures": measures, "seed": seed}
        return _write_plan(plan or PLAN, {"original": original} | references, opened, asked)
    audited, folders = _audited(unlearned or [], out, junit, release)
    words = {"original": original} | audited | references
    given: dict[str, Any] = {
        "rules": rules, "budget": None if budget is None else seconds_of(budget), "precision": precision,
        "plan": None if plan is None else Plan.read(plan), "command": opt.command_line(), "seed": seed,
    }  # fmt: skip
    if opt.is_keyword(words["reference"]):
        auditing.kind_of_reference(words["reference"])  # words that are not understood cost no loading
        given["reference"] = words.pop("reference")
    if outputs or features:
        idle = {"network": network, "cuts": cuts, "trust": trust, "budget": budget, "device": device, "stress": stress,
                "plan": plan, "thumbnails": thumbnails, "tsne": tsne, "release": release, "precision": precision, "init": init}  # fmt: skip
        idle |= {CRITIC.get(name, name): value for name, value in fields.items()}
        models: dict[str, Any] = dict(_saved(words, outputs, features, data or forget, idle))
        hashes = opt.file_hashes(words)
    else:
        task, models, hashes = opened(words)
        _introduce(task, models["original"])
        audited = _released(release, models, task, opened, hashes) if release else audited
        if init is not None:  # the model that Original's training started from
            file = Checkpoint(init)
            hashes["start"], models["start"] = file.sha256, auditing.draw_start(models["original"], file, seed, trust)
        given |= {"task": task, "curve": curve, "measures": measures}
        if given.get("reference", "none") != "none":
            network_name = str(models["original"].architecture.get("network", ""))
            given["pretraining"] = pretraining(scale, task.dataset, network_name)
    fixed = {role: model for role, model in models.items() if role not in audited}
    auditor = auditing.Auditor(**given | opt.as_kwargs(fixed))
    auditor.check(*(models[role] for role in audited))
    codes, typed = [], {"original": original, **references, "data": data, "forget": forget, "network": network}
    typed |= {"cuts": cuts, "device": device, "by": by, "init": init}
    for role, folder in folders.items():
        with work(steps=_steps(given, fixed)):
            done = auditor.audit(models[role], **_own(role, audited, folder, typed, hashes))
        shown = given["task"] if thumbnails else None
        _show(done, folder, shown, as_json, junit, f"{audited[role]}: " if len(audited) > 1 else "", records)
        codes.append(EXIT.get(done.verdict, 1))
    raise typer.Exit(next((code for code in (1, 2) if code in codes), 0))


def _audited(
    files: list[str], out: Path | None, junit: Path | None, release: Path | None
) -> tuple[dict[str, str], dict[str, Path | None]]:
    """Files of the audited models, and the folder of each one's report, by role: unlearned, unlearned 2, ..."""
    if not files:
        raise InputError("--unlearned is missing; give the model to audit, or write a plan with --plan-only")
    roles = ["unlearned", *(f"unlearned {number}" for number in range(2, len(files) + 1))]
    folders: dict[str, Path | None] = dict.fromkeys(roles, out)
    if len(files) > 1:
        if junit:
            raise InputError("--junit is the result of one model; leave it out, or audit the models one by one")
        names = [opt.files_of(file)[0].stem for file in files]
        if out and len(set(names)) < len(names):
            raise InputError("two of the audited files have the same name, and so would their reports; rename one")
        folders = {role: out / name if out else None for role, name in zip(roles, names, strict=True)}
    for folder in folders.values():
        if folder:
            check_place(folder / "report.json")
            check_place(folder / "records" / "unlearned.json")
    if junit:
        check_place(junit)
    if release is not None:
        if len(roles) > 1:
            raise InputError("--release writes one model; leave it out, or audit the models one by one")
        if release.suffix != ".safetensors":
            raise InputError(f"--release {release} is not understood; give a file that ends in .safetensors")
        check_place(release)
    return dict(zip(roles, files, strict=True)), folders


def _steps(given: Mapping[str, Any], fixed: Mapping[str, Any]) -> list[str]:
    """The stages of an audit of weights in their order, as it reports them."""
    if "curve" not in given:
        return []
    roles = ("unlearned", *(role for role in fixed if role != "start"))
    first = (given["curve"], *auditing.VERDICT_MEASURES)
    needed = [f"{role}: {each.label}" for role in roles for each in first]
    needed += [f"start: {given['curve'].label}"] * ("start" in fixed)
    return needed + [f"{role}: {each.label}" for each in given["measures"] for role in roles]


def _released(
    release: Path, models: dict[str, Any], task: ForgetTask, opened: Callable[..., Any], hashes: dict[str, str]
) -> dict[str, str]:
    """The word of the released file, which takes the place of the audited model."""
    save(canonical_form(models["unlearned"], task), release)
    audited = {"unlearned": str(release)}
    _, again, theirs = opened(audited)
    models.update(again)
    hashes.update(theirs)
    return audited


def _own(
    role: str, audited: Mapping[str, str], out: Path | None, words: Mapping[str, str | None], hashes: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The words typed for the audit of one of the models, and the hashes of its file and of those it is compared with."""
    typed = {name: word for name, word in words.items() if word is not None}
    typed |= {"unlearned": audited[role], "when": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"}
    if (
        out is not None and not out.is_absolute()
    ):  # the path from the folder of the report to where the command was typed
        typed["from"] = os.path.relpath(".", out)
    files = {name: sha for name, sha in hashes.items() if name not in audited}
    if role in hashes:
        files["unlearned"] = hashes[role]
    return {"typed": typed, "files": files}


def _write_plan(path: Path, words: Mapping[str, str], opened: Callable[..., Any], asked: Mapping[str, Any]) -> None:
    check_place(path)
    task, models, _ = opened(words)
    zero: dict[str, Any] = {"reference": words["reference"]}  # a keyword, unless there are files
    made = auditing.planned(**zero | opt.as_kwargs(models) | dict(asked), task=task)
    echo(f"{made.sha256}  {made.write(path)}")


def _opened(
    words: Mapping[str, str],
    *,
    data: str | None,
    forget: str | None,
    device: str,
    network: str | None,
    cuts: str | None,
    trust: bool,
) -> tuple[ForgetTask, dict[str, Classifier], dict[str, str]]:
    """The task, and by role the models of the words that are files and the SHA-256 of the bytes they were read from."""
    if not data or not forget:
        raise InputError("--data and --forget say what was to be forgotten; give both")
    where = choose_device(device)
    files = {role: Checkpoint(word) for role, word in words.items() if not opt.is_keyword(word)}
    hashes = {role: file.sha256 for role, file in files.items()}
    task = open_task(data, forget, list(files.values()))
    # Each file's bytes are given up once its model is there.
    models = {role: load_for(task, files.pop(role), where, network, cuts, trust) for role in hashes}
    announce(where)
    return task, models, hashes


def _show(
    made: auditing.Audit,
    out: Path | None,
    thumbnails: ForgetTask | None,
    as_json: bool,
    junit: Path | None,
    title: str,
    records: bool,
) -> None:
    """Print what was found under the title, all of it where it is saved nowhere; then save it, which may fail."""
    if as_json:
        echo(made.report.model_dump_json(indent=1))
    else:
        echo(title + (made.report.markdown() if not out else f"{made.verdict}\n{made.sentence}"))
    if out:
        made.save(out, thumbnails=thumbnails, records=records)
        say(f"The report{' and its records are' if records else ' is'} in {out}/; open {out / 'report.html'}.")
    if junit:
        write_text(junit, junit_xml(made.report, measuring_seconds(made.records)))


def _refuse_idle(options: Mapping[str, Any], where: str) -> None:
    """Refuse options that were given and would change nothing."""
    idle = [
        f"--{name.replace('_', '-')}"
        for name, value in options.items()
        if value is not None and value is not False and (name, value) != ("device", "auto")
    ]
    if idle:
        raise InputError(f"{', '.join(idle)} would change nothing {where}; leave them out")


def _saved(
    words: Mapping[str, str], outputs: bool, features: bool, labels: str | None, idle: Mapping[str, Any]
) -> dict[str, Any]:
    """Saved files by role; options that would change nothing in an audit of them are refused."""
    if labels:
        raise InputError("saved outputs and features carry their own labels; leave --data and --forget out")
    _refuse_idle(idle, "in an audit of saved files")
    if outputs and features:
        return {role: saved.read_saved(*opt.files_of(word)).sampled() for role, word in words.items()}
    return {
        role: saved.read_outputs(word) if outputs else saved.read_features(word).sampled()
        for role, word in words.items()
    }


def _introduce(task: ForgetTask, original: Classifier) -> None:
    """Say what images models see, and whether Original's accuracy on them is above chance."""
    split = task.retain
    channels, height, width = split.shape
    mean, std = (", ".join(f"{value:.3f}" for value in values) for values in (split.mean, split.std))
    right = {
        name: float((logits(original, part).argmax(dim=1) == part.labels).double().mean())
        for name, part in (("test", task.test), ("forget", task.forget))
        if len(part)
    }
    what = "the forgotten class" if task.scenario == "class" else "the forgotten samples"
    what += "es" if len(task.forgotten) > 1 else ""
    say(
        f"Images {channels} x {height} x {width}, mean {mean}, std {std}"
        + (f" ({task.preprocessed})" if task.preprocessed else "")
        + f". Original's accuracy: {100 * right['test']:.1f} % on test, {100 * right['forget']:.1f} % on {what}."
    )
    chance = 1 / task.classes
    low = [name for name, value in right.items() if value <= chance + 0.5 * min(chance, 0.2)]
    if low:
        where = " and ".join({"test": "test", "forget": what}[name] for name in low)
        say(
            f"warning: Original is near chance ({100 * chance:.1f} %) on {where}. Is that how it was trained to see images? "
            "--size, --mean, --std and --normalise change it, --network its architecture."
        )
