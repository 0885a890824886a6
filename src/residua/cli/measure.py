"""`residua measure`: the metrics of one or several models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

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
)
from residua.cli.words import PluginOption
from residua.compare import metrics as all_metrics
from residua.compare import readings_of
from residua.compare.explanations import explained, explanation, explanations
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.explaining import Explanation
from residua.facts import MethodFacts
from residua.files import check_place
from residua.measure import Measure, measures
from residua.measure.measuring import measured
from residua.models.classifier import Classifier, weights_digest
from residua.readings import Reading
from residua.record import Record
from residua.report import metrics_data, metrics_table
from residua.texts import slug


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
    plugin: PluginOption = None,
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
    for setting in settings or []:
        _set(available, setting)
    wanted, needed = _asked(
        metrics, available, original=original is not None, reference=reference is not None
    )
    where = choose_device(device)
    task = open_task(data, forget, [original, reference, *models])
    if wanted is None:
        _say_what_is_left_out(original=original is not None, reference=reference is not None)
    places = named({"Reference": reference, "Original": original}, models)
    loaded = {name: load_for(task, path, where, network, cuts, trust) for name, path in places.items()}
    records = _records(loaded, task, [available[label] for label in needed])
    read = {name: readings_of(record) for name, record in records.items()}
    compared = {
        name: all_metrics(read[name], original=read.get("Original"), reference=read.get("Reference"))
        for name in records
    }
    shown = {name: _chosen(compared[name], records[name], wanted) for name in records}
    if out:
        for record in records.values():
            record.write(out)
        say(f"Records are in {out}/.")
    if as_json:
        console.print_json(json.dumps([_row(name, reading) for name, reading in shown.items()]))
    elif as_csv:
        console.print(metrics_data(shown).csv(), end="", markup=False)
    else:
        title = f"{task.dataset}, {len(task.forget)} examples forgotten"
        show(metrics_table(shown, title=title, full=wanted is not None))


def _set(available: dict[str, Measure], setting: str) -> None:
    """`mia.classifier=svc` changes that field of that measure, to a value of the type it had."""
    key, equals, value = setting.partition("=")
    label, _, name = key.rpartition(".")
    if not equals or label not in available:
        raise InputError(
            f"--set {setting!r} is not understood; write MEASURE.FIELD=VALUE, such as mia.classifier=svc"
        )
    known: dict[str, Any] = {
        field.name: getattr(available[label], field.name)
        for field in fields(available[label])  # type: ignore[arg-type]
    }
    if name not in known:
        raise InputError(
            f"--set {setting!r}: {label} has no field {name!r}; it has {', '.join(known) or 'none'}"
        )
    if not isinstance(known[name], int | float | str) or isinstance(known[name], bool):
        raise InputError(f"--set {setting!r}: {name} cannot be set here; set it in Python")
    try:
        typed = type(known[name])(value)
    except ValueError:
        raise InputError(
            f"--set {setting!r}: {value!r} cannot be a value of {name}, which is {known[name]!r}"
        ) from None
    available[label] = replace(available[label], **{name: typed})  # type: ignore[type-var]


def _asked(names: str, available: Mapping[str, Measure], **there: bool) -> tuple[set[str] | None, list[str]]:
    """The metrics (None: all) and the labels of the measures that they need."""
    if names.strip().lower() == "all":
        return None, list(available)
    wanted: set[str] = set()
    needed: list[str] = []
    for word in filter(None, (word.strip() for word in names.split(","))):
        if word in available:  # all that this measure gives
            entries = [
                entry for entry in explanations() if entry.measures == (word,) and not _lacking(entry, there)
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
    names = [entry.name for entry in explanations() if entry.measures and _lacking(entry, there)]
    if names:
        options = " and ".join(f"--{other}" for other, given in there.items() if not given)
        say(f"note: without {options} there is no {', '.join(names)}")


def _records(
    models: Mapping[str, Classifier], task: ForgetTask, chosen: Sequence[Measure]
) -> dict[str, Record]:
    """A record of each model. Equal models are measured once; if no measure could read one, that is an error."""
    records: dict[str, Record] = {}
    setting = {"task": task.manifest()}
    for name, model in models.items():
        weights = weights_digest(model)
        method = MethodFacts(label=name, weights=weights)
        equal = [
            record
            for other, record in records.items()
            if record.method.weights == weights and models[other].architecture == model.architecture
        ]
        if equal:
            records[name] = equal[0].model_copy(update={"name": slug(name), "method": method})
            continue

        def tell(label: str, seconds: float, name: str = name) -> None:
            if len(chosen) > 1:
                say(f"{name}: {label}, {seconds:.1f} s")

        records[name] = measured(
            model,
            task,
            chosen,
            name=slug(name),
            method={"label": name, "weights": weights},
            setting=setting,
            command=command_line(),
            tell=tell,
        )
        if not records[name].readings:
            raise InputError(next(iter(records[name].refused.values())))
    return records


def _chosen(all_found: Reading, record: Record, wanted: set[str] | None) -> Reading:
    """Only what was asked for; a metric whose measure refused is missing with its reason."""
    foreign = {
        name for label, values in record.readings.items() if wanted and label in wanted for name in values
    }

    def asked(name: str) -> bool:
        entry = explained(name)
        return wanted is None or name in foreign or (entry is not None and entry.name in wanted)

    notes = dict(all_found.notes)
    for label, why in record.refused.items():
        names = [entry.name for entry in explanations() if label in entry.measures]
        notes |= dict.fromkeys(names or [label], why)
    return Reading(
        {name: value for name, value in all_found.values.items() if asked(name)},
        notes={name: why for name, why in notes.items() if asked(name) and name not in all_found.values},
    )


def _row(name: str, reading: Reading) -> dict[str, object]:
    return {"model": name, **reading.values} | ({"notes": dict(reading.notes)} if reading.notes else {})
