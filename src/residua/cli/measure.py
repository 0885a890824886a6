"""`residua measure`: the metrics of one or several models, and the information in their blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.cli import options as opt
from residua.cli.console import echo, echo_json, say, show, work, write_text
from residua.cli.inputs import announce, choose_device, load_for, named, open_task, with_critics
from residua.compare import metrics as all_metrics
from residua.compare import readings_of
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.explanations import Explanation, explained, explanation, explanations
from residua.files import check_place
from residua.measure import InformationCurve, Measure, measures
from residua.measure.measuring import measured
from residua.models.classifier import Classifier, weights_digest
from residua.readings import Reading
from residua.record import MethodFacts, Record
from residua.report.methods import information_table, order_table
from residua.report.table import metrics_data, metrics_table
from residua.text import slug
from residua.training.loop import seeded
from residua.unlearn import Random

INFORMATION = InformationCurve.label


@with_critics
def measure(
    data: opt.Data,
    forget: opt.Forget,
    models: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoints (.safetensors, .pt, .pth).", metavar="MODEL")
    ] = None,
    metrics: Annotated[
        str, opt.methods("Metrics, separated by commas (UA,E-MIA,recovery), or all. residua explain lists them.")
    ] = "UA,RA,TA",
    original: Annotated[Path | None, opt.models("Checkpoint of the model before unlearning (IDI 1).")] = None,
    reference: Annotated[
        Path | None,
        opt.models("Checkpoint of a model retrained without the forgotten data (IDI 0): its values are the aim."),
    ] = None,
    random: Annotated[
        bool, opt.models("Also measure a network with random weights; needs --original.", "--random")
    ] = False,
    settings: Annotated[
        list[str] | None,
        opt.methods(
            "Setting of a measure, such as mia.classifier=svc; may be repeated.", "--set", metavar="MEASURE.FIELD=VALUE"
        ),
    ] = None,
    plugin: opt.Plugins = None,
    network: opt.Network = None,
    cuts: opt.Cuts = None,
    trust: opt.Trust = False,
    device: opt.Device = "auto",
    as_json: Annotated[bool, opt.output("Print JSON, fractions in [0, 1].", "--json")] = False,
    as_csv: Annotated[bool, opt.output("Print CSV, fractions in [0, 1].", "--csv")] = False,
    out: Annotated[
        Path | None,
        opt.output(
            "Write a record of each model, arrays included, and the table of the information to this folder.",
            metavar="DIR",
        ),
    ] = None,
    scale: Annotated[str, opt.output("Scale that tables and records name.")] = "custom",
    *,
    fields: dict[str, Any],
) -> None:
    """Measure metrics of models: what they say and, if asked for, what their blocks know.

    With IDI among the metrics, a second table shows the mutual information of the last blocks with what was to be
    forgotten, and IDI with its interval. Any other reference, number of blocks or family of critics is then arithmetic on
    the records of --out.

    Example: residua measure unlearned.safetensors --original original.safetensors --reference retrain.safetensors --data
    fashion-sample --forget class:6 --metrics IDI
    """
    if as_json and as_csv:
        raise InputError("--json and --csv were both given; choose one")
    if out:
        check_place(out / "model.json")
    if not (models or original or reference):
        raise InputError("no model was given; name one or several checkpoints")
    if random and original is None:
        raise InputError("--random draws a network like Original; give --original")
    available = {label: kind() for label, kind in measures().items()}
    available[INFORMATION] = replace(InformationCurve(), **fields)
    for setting in settings or []:
        _set(available, setting)
    wanted, needed = _asked(metrics, available, original=original is not None, reference=reference is not None)
    if fields and INFORMATION not in needed:
        raise InputError("settings of the critics were given, but nothing reads them; add --metrics IDI")
    where = choose_device(device)
    task = open_task(data, forget, [original, reference, *(models or [])])
    if wanted is None:
        _say_what_is_left_out(original=original is not None, reference=reference is not None)
    places = named({"Reference": reference, "Original": original}, models or [], kept=["Random"] if random else [])
    loaded = {name: load_for(task, path, where, network, cuts, trust) for name, path in places.items()}
    if random:
        with seeded(0):
            loaded["Random"] = Random()(loaded["Original"], task)
    announce(where)
    chosen = [available[label] for label in needed]
    records = _records(loaded, task, chosen, scale)
    if out:
        for record in records.values():
            record.write(out)
        say(f"Records are in {out}/.")
    compared = _compared(records, wanted)
    if as_json:
        echo_json([_row(name, reading) for name, reading in compared.items()])
    elif as_csv:
        echo(metrics_data(compared).csv(), end="")
    else:
        title = f"{task.dataset}, {len(task.forget)} examples forgotten"
        show(metrics_table(compared, title=title, full=wanted is not None))
    if original and reference and INFORMATION in needed:
        _show_information(list(records.values()), out, quiet=as_json or as_csv)


def _compared(records: Mapping[str, Record], wanted: set[str] | None) -> dict[str, Reading]:
    read = {name: readings_of(record) for name, record in records.items()}
    original, reference = read.get("Original"), read.get("Reference")
    return {
        name: _chosen(all_metrics(read[name], original=original, reference=reference), records[name], wanted)
        for name in records
    }


def _show_information(records: list[Record], out: Path | None, quiet: bool) -> None:
    """The table of the information by block and, for stacked critics, that of the order of models."""
    if any(INFORMATION in record.refused for record in records):
        return
    order = ("Original", "Reference")
    records = sorted(records, key=lambda r: order.index(r.method.label) if r.method.label in order else 2)
    table = information_table(records, reference="Reference")
    if out:
        write_text(out / "table.md", table.markdown())
    if quiet:
        return
    show(table)
    settings = records[0].measures[INFORMATION].fields
    if settings["family"] == "stack" and settings["protocol"] == "held-out" and len(records) > 2:
        show(order_table(records, reference="Reference"))


def _set(available: dict[str, Measure], setting: str) -> None:
    """`mia.classifier=svc` changes that field of that measure, to a value of the type it had."""
    key, equals, value = setting.partition("=")
    label, _, name = key.rpartition(".")
    if not equals or label not in available:
        raise InputError(f"--set {setting!r} is not understood; write MEASURE.FIELD=VALUE, such as mia.classifier=svc")
    known: dict[str, Any] = {
        field.name: getattr(available[label], field.name)
        for field in fields_of(available[label])  # type: ignore[arg-type]
    }
    if name not in known:
        raise InputError(f"--set {setting!r}: {label} has no field {name!r}; it has {', '.join(known) or 'none'}")
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
            entries = [entry for entry in explanations() if entry.measures == (word,) and not _lacking(entry, there)]
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
    models: Mapping[str, Classifier], task: ForgetTask, chosen: Sequence[Measure], scale: str
) -> dict[str, Record]:
    """A record of each model. Equal models are measured once; if no measure could read one, that is an error."""
    records: dict[str, Record] = {}
    setting = {"scale": scale, "task": task.manifest()}
    critics = next((each for each in chosen if isinstance(each, InformationCurve)), None)
    seeds = {} if critics is None else {"critics": critics.seed}
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

        # A single quick measurement is not worth a line.
        with work() if len(chosen) > 1 or critics else contextlib.nullcontext():
            records[name] = measured(
                model,
                task,
                chosen,
                name=slug(name),
                method={"label": name, "weights": weights},
                setting=setting,
                seeds=seeds,
                command=opt.command_line(),
            )
        if not records[name].readings:
            raise InputError(next(iter(records[name].refused.values())))
    return records


def _chosen(all_found: Reading, record: Record, wanted: set[str] | None) -> Reading:
    """Only what was asked for; a metric whose measure refused is missing with its reason."""
    foreign = {name for label, values in record.readings.items() if wanted and label in wanted for name in values}

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
