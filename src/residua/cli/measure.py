"""`residua measure`: the metrics of one or several models."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.classifier import Classifier, weights_digest
from residua.cli.console import out as console
from residua.cli.console import say, show
from residua.cli.options import (
    CutsOption,
    DataOption,
    DeviceOption,
    ForgetOption,
    NetworkOption,
    TrustOption,
    choose_device,
    command_line,
    load_for,
    named,
    open_task,
    record_name,
)
from residua.compare import metrics as all_metrics
from residua.compare import reading_fields
from residua.errors import InputError
from residua.explanations import EXPLANATIONS, Explanation, explained, explanation
from residua.files import check_place
from residua.measure import Measure, measures
from residua.reading import Reading
from residua.record import Record, describe
from residua.report import metrics_data, metrics_table
from residua.task import ForgetTask


def measure(
    models: Annotated[
        list[Path], typer.Argument(help="Checkpoints (.safetensors, .pt, .pth).", metavar="MODEL...")
    ],
    data: DataOption,
    forget: ForgetOption,
    metrics: Annotated[
        str,
        typer.Option(help="all, or names with commas between them: UA,E-MIA,recovery. See: residua explain."),
    ] = "UA,RA,TA",
    original: Annotated[Path | None, typer.Option(help="Checkpoint of Original, to compare with.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Checkpoint of the reference, usually Retrain: the values to have.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="MEASURE.FIELD=VALUE", help="A setting, such as mia.classifier=svc; repeatable."
        ),
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, shares in [0, 1].")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, shares in [0, 1].")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write a record of each model, arrays included, to this folder.")
    ] = None,
) -> None:
    """Metrics of each model: what it says and, if asked for, what it knows."""
    if as_json and as_csv:
        raise InputError("--json and --csv were both given; choose one")
    if out:
        check_place(out / "model.json")
    available = {label: kind() for label, kind in measures().items()}
    for words in settings or []:
        _set(available, words)
    wanted, needed = _asked(
        metrics, available, original=original is not None, reference=reference is not None
    )
    where = choose_device(device)
    task = open_task(data, forget)
    if wanted is None:
        _say_what_is_left_out(original=original is not None, reference=reference is not None)
    places = named({"Reference": reference, "Original": original}, models)
    loaded = {name: load_for(task, path, where, network, cuts, trust) for name, path in places.items()}
    read: dict[str, Findings] = {}
    for name, model in loaded.items():
        digest = weights_digest(model)
        same = [
            of
            for other, of in read.items()
            if of.weights == digest and loaded[other].architecture == model.architecture
        ]
        read[name] = same[0] if same else _read(name, model, digest, task, [available[n] for n in needed])
    before = read["Original"].readings if original else None
    never = read["Reference"].readings if reference else None
    found = {
        name: _chosen(all_metrics(of.readings, original=before, reference=never), of, wanted)
        for name, of in read.items()
    }
    if out:
        for name, of in read.items():
            _record(name, loaded[name], of, task, available).write(out)
        say(f"Records are in {out}/.")
    if as_json:
        console.print_json(json.dumps([_row(name, reading) for name, reading in found.items()]))
    elif as_csv:
        console.print(metrics_data(found).csv(), end="", markup=False)
    else:
        title = f"{task.dataset}, {len(task.forget)} examples forgotten"
        show(metrics_table(found, title=title, full=wanted is not None))


@dataclass(frozen=True)
class Findings:
    """What the measures found in one model, or why they could not, and how long they took."""

    weights: str
    readings: dict[str, Reading]
    failed: dict[str, InputError]
    seconds: dict[str, float]


def _set(available: dict[str, Measure], words: str) -> None:
    """`mia.classifier=svc` changes that field of that measure, to a value of the type it had."""
    key, equals, value = words.partition("=")
    label, _, name = key.rpartition(".")
    if not equals or label not in available:
        raise InputError(
            f"--set {words!r} is not understood; write MEASURE.FIELD=VALUE, such as mia.classifier=svc"
        )
    known: dict[str, Any] = {
        field.name: getattr(available[label], field.name)
        for field in fields(available[label])  # type: ignore[arg-type]
    }
    if name not in known:
        raise InputError(
            f"--set {words!r}: {label} has no field {name!r}; it has {', '.join(known) or 'none'}"
        )
    if not isinstance(known[name], int | float | str) or isinstance(known[name], bool):
        raise InputError(f"--set {words!r}: {name} cannot be set here; set it in Python")
    try:
        typed = type(known[name])(value)
    except ValueError:
        raise InputError(
            f"--set {words!r}: {value!r} cannot be a value of {name}, which is {known[name]!r}"
        ) from None
    available[label] = replace(available[label], **{name: typed})  # type: ignore[type-var]


def _asked(words: str, available: Mapping[str, Measure], **there: bool) -> tuple[set[str] | None, list[str]]:
    """The metrics (None: all) and the labels of the measures that they need."""
    if words.strip().lower() == "all":
        return None, list(available)
    wanted: set[str] = set()
    needed: list[str] = []
    for word in filter(None, (word.strip() for word in words.split(","))):
        if word in available:  # all that this measure gives
            entries = [
                entry for entry in EXPLANATIONS if entry.measures == (word,) and not _lacking(entry, there)
            ]
            wanted |= {word, *(entry.name for entry in entries)}
            needed.append(word)
            continue
        entry = explanation(word)
        if not entry.measures:
            raise InputError(
                f"{entry.name} cannot be measured on a checkpoint alone; residua explain {entry.name} says what it needs"
            )
        if lacking := _lacking(entry, there):
            options = (" or " if entry.either else " and ").join(f"--{other}" for other in lacking)
            raise InputError(f"{entry.name} compares with another model; give {options}")
        wanted.add(entry.name)
        needed += entry.measures
    if not wanted:
        raise InputError("--metrics names nothing; write all, or names with commas between them")
    return wanted, [label for label in available if label in needed]


def _lacking(entry: Explanation, there: Mapping[str, bool]) -> list[str]:
    lacking = [other for other in entry.against if not there[other]]
    return [] if entry.either and len(lacking) < len(entry.against) else lacking


def _say_what_is_left_out(**there: bool) -> None:
    names = [entry.name for entry in EXPLANATIONS if entry.measures and _lacking(entry, there)]
    if names:
        options = " and ".join(f"--{other}" for other, given in there.items() if not given)
        say(f"note: without {options} there is no {', '.join(names)}")


def _read(name: str, model: Classifier, digest: str, task: ForgetTask, chosen: Sequence[Measure]) -> Findings:
    """What each measure found; if none could find anything, that is an error."""
    found = Findings(digest, {}, {}, {})
    for measure in chosen:
        start = time.perf_counter()
        try:
            found.readings[measure.label] = measure(model, task)
        except InputError as error:
            found.failed[measure.label] = error
        found.seconds[measure.label] = time.perf_counter() - start
        if len(chosen) > 1:
            say(f"{name}: {measure.label}, {found.seconds[measure.label]:.1f} s")
    if not found.readings:
        raise next(iter(found.failed.values()))
    return found


def _chosen(all_found: Reading, of: Findings, wanted: set[str] | None) -> Reading:
    """Only what was asked for; a metric whose measure failed is missing with its reason."""
    foreign = {
        name
        for label, reading in of.readings.items()
        if wanted and label in wanted
        for name in reading.values
    }

    def asked(name: str) -> bool:
        entry = explained(name)
        return wanted is None or name in foreign or (entry is not None and entry.name in wanted)

    notes = dict(all_found.notes)
    for label, error in of.failed.items():
        names = [entry.name for entry in EXPLANATIONS if label in entry.measures]
        notes |= dict.fromkeys(names or [label], str(error))
    return Reading(
        {name: value for name, value in all_found.values.items() if asked(name)},
        notes={name: why for name, why in notes.items() if asked(name) and name not in all_found.values},
    )


def _record(
    name: str, model: Classifier, of: Findings, task: ForgetTask, available: Mapping[str, Measure]
) -> Record:
    settings = {label: describe(available[label]) for label in of.readings}
    return Record(
        name=record_name(name),
        setting={"scale": "custom", "network": model.architecture, "task": task.manifest()},
        method={"label": name, "weights": of.weights},
        seeds={},
        seconds=of.seconds,
        command=command_line(),
        **reading_fields(of.readings, settings),
    )


def _row(name: str, reading: Reading) -> dict[str, object]:
    return {"model": name, **reading.values} | ({"notes": dict(reading.notes)} if reading.notes else {})
