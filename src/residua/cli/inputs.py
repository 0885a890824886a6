"""Values of options as objects: tasks, models, devices, methods, and the fields of dataclasses as options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, get_args, get_origin

import torch
import typer

from residua.cli.console import say
from residua.cli.options import methods, with_parameters
from residua.data.parsing import open_dataset, parse_forget, split_settings
from residua.data.preprocessing import Preprocessing, from_checkpoint
from residua.data.task import ForgetTask
from residua.device import device_facts
from residua.errors import InputError, first_line
from residua.files import check_place, read_text
from residua.measure import InformationCurve
from residua.models.checkpoint import Checkpoint
from residua.models.classifier import Classifier
from residua.models.foreign.opening import open_model
from residua.record import NAME, Record
from residua.text import from_json, slug
from residua.training.recipes import Scale, unlearning_of
from residua.training.settings import described
from residua.unlearn import Unlearner, find

# Files beside records and reports that are neither.
OTHERS = ("keys.json", "study.json")
ScaleOption = Annotated[
    Scale, methods("Default hyperparameters: ours (tiny, small) or the paper's (full). Explicit options override them.")
]


def open_task(
    data: str, forget: str, models: Sequence[str | Path | Checkpoint | None] = (), shown: Preprocessing | None = None
) -> ForgetTask:
    """The task, shown as its models expect it, and notes about the data.

    Where the words do not say how images are prepared, `shown` does, and without it the checkpoints of `models`.
    """
    asked = split_settings(data)[1].keys()
    carried, source = shown, ""
    for path in [] if shown or asked & {"mean", "normalise"} else models:
        found = None if path is None else from_checkpoint(Checkpoint.of(path).preprocessing)
        if found is None:
            continue
        if carried is None:
            carried, source = found, str(path)
        elif not _alike(carried, found):
            raise InputError(
                f"{source} and {path} were trained on images of another size or normalisation, so no one way to show "
                "images serves both; audit them on the same, with --size and --mean and --std if you know it"
            )
    opened = open_dataset(data, carried=carried)
    for note in opened.notes:
        say(f"note: {note}")
    task = parse_forget(opened, forget)
    source = f"as {source} says" if source else "the data's own; no checkpoint says otherwise"
    asks = asked & {"size", "mean", "normalise"}
    task = dataclasses.replace(task, preprocessed="as asked" if asks else source)
    for splits, pairs in task.duplicates().items():
        if pairs:
            left, right = next(iter(pairs))
            say(f"note: {len(pairs)} pairs of exactly equal images in {splits} (first: {left} and {right})")
    return task


def _alike(one: Preprocessing, other: Preprocessing) -> bool:
    numbers = zip((*(one.mean or ()), *(one.std or ())), (*(other.mean or ()), *(other.std or ())), strict=False)
    return (
        one.size == other.size
        and len(one.mean or ()) == len(other.mean or ())
        and all(abs(a - b) < 1e-4 for a, b in numbers)
    )


def load_for(
    task: ForgetTask,
    path: Path | Checkpoint,
    device: torch.device,
    network: str | None = None,
    cuts: str | None = None,
    trust: bool = False,
) -> Classifier:
    """The classifier in this checkpoint, which must fit the task's images and classes."""
    channels, height, width = task.retain.shape
    model = open_model(
        path,
        network,
        cuts=cut_names(cuts),
        trust=trust,
        classes=task.classes,
        channels=channels,
        image=(height, width),
        device=str(device),
    )
    for note in model.notes:
        say(f"note: {note}")
    return model


def cut_names(cuts: str | None) -> list[str] | None:
    """The submodules of --cuts."""
    return None if cuts is None else [name.strip() for name in cuts.split(",")]


def check_outputs(out: Path, record: Path | None) -> None:
    """Refuse places for a checkpoint and a record before the work begins, not after it."""
    if out.suffix != ".safetensors":
        raise InputError(f"--out {out} must end in .safetensors, the only format that is written")
    if record and record.suffix != ".json":
        raise InputError(f"--record {record} must end in .json")
    if record and not re.fullmatch(NAME, record.stem):
        raise InputError(f"--record {record} must be named in lower-case letters, digits, dots and dashes; rename it")
    for path in filter(None, (out, record)):
        check_place(path)


def named(others: Mapping[str, Path | None], models: Sequence[Path], *, kept: Sequence[str] = ()) -> dict[str, Path]:
    """A name for each checkpoint; if two would share one, or a record's, a number follows it.

    `kept` are names that none of `models` may have.
    """
    places = {name: path for name, path in others.items() if path}
    taken = {slug(name) for name in (*places, *kept)}
    for path in models:
        name, number = path.stem, 2
        while slug(name) in taken:
            name, number = f"{path.stem} {number}", number + 1
        taken.add(slug(name))
        places[name] = path
    return places


def records_in(folder: Path) -> list[Record]:
    """The records of a study in its own order, or those that lie in the folder."""
    from residua.study.store import RECORDS, own_file, own_folder

    inside = own_folder(folder, RECORDS) if (folder / RECORDS).is_dir() else folder
    paths = sorted(path for path in inside.glob("[!.]*.json") if path.name not in OTHERS)
    if not paths:
        raise InputError(f"{folder} holds no records yet; run the study first, or give the folder of an audit or study")
    place = {each: number for number, each in enumerate(_order(own_file(folder / "keys.json")))}
    paths.sort(key=lambda path: place.get(path.stem, len(place)))
    known = [path for path in paths if not place or path.stem in place]
    if not known:
        raise InputError(f"{folder / 'keys.json'} names none of the records in {inside}; run the study again")
    return [Record.read(own_file(path)) for path in known]


def _order(path: Path) -> list[str]:
    """The rows of a study in its own order; nothing where the folder holds none."""
    if not path.exists():
        return []
    try:
        return list(dict(from_json(read_text(path))))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({first_line(error)}); run the study again") from error


def device_name(name: str) -> str:
    """The device that a word of --device means; nothing is opened."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    # Under torchrun each process has a GPU of its own.
    return f"cuda:{os.environ['LOCAL_RANK']}" if name == "cuda" and "LOCAL_RANK" in os.environ else name


def choose_device(name: str) -> torch.device:
    """The device of --device, which must work."""
    name = device_name(name)
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name} cannot be used here ({str(error).splitlines()[0]}); try cpu") from error
    return device


def announce(device: torch.device) -> None:
    """Say the device that readings are made on; the CPU leaves nothing to choose.

    Called once every input was accepted, so that a refusal stays one sentence.
    """
    if device.type != "cpu":
        say(device_facts(device))


def chosen_method(label: str, scale: Scale, task: ForgetTask, network: str, fields: dict[str, Any]) -> Unlearner:
    """The method with the scale's recipe and, on top, the fields that were given."""
    method = find(label)
    recipe = unlearning_of(method.label, scale, task.scenario, task.dataset, network)
    return find(label, **(recipe | fields))


def with_fields(
    kind: type,
    *,
    leave_out: Collection[str] = (),
    qualified: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    panel: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Every field of a dataclass becomes an option; those given reach the command as `fields`.

    A field that says nothing about itself has an option without help. `qualified` renames options, such as lr to
    critic_lr. `defaults` are shown instead of the fields' own.
    """
    own_fields = {
        name: each for name, each in described(kind).items() if name not in leave_out and _can_be_typed(each.type)
    }
    shown = {field.name: field.default for field in dataclasses.fields(kind)} | dict(defaults or {})
    names = {name: (qualified or {}).get(name, name) for name in own_fields}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        shared = [p for name, p in own.parameters.items() if name != "fields"]
        added = [
            inspect.Parameter(
                option,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    Optional[own_fields[name].type],  # noqa: UP045 (typer reads it at run time)
                    typer.Option(
                        help=own_fields[name].setting.help or None,
                        show_default=_shown(option, shown.get(name)),
                        rich_help_panel=panel or f"Settings of {kind.__name__}",
                    ),
                ],
            )
            for name, option in names.items()
        ]

        @functools.wraps(command)
        def call(**given: Any) -> Any:
            fields = {name: value for name, option in names.items() if (value := given.pop(option)) is not None}
            return command(**given, fields=fields)

        return with_parameters(call, [*shared, *added])

    return decorate


def _can_be_typed(hint: Any) -> bool:
    """True if a word can be a value of this type; a field of another type is set in Python."""
    if get_origin(hint) is Literal:
        return all(isinstance(value, str) for value in get_args(hint))
    members = [member for member in get_args(hint) or (hint,) if member is not type(None)]
    return len(members) == 1 and members[0] in (int, float, str, bool, Path)


def _shown(option: str, value: Any) -> str | bool:
    """A default as --help shows it; what is not set is not shown."""
    if value is None or value is dataclasses.MISSING:
        return False
    if isinstance(value, bool):
        return option.replace("_", "-") if value else f"no-{option.replace('_', '-')}"
    return str(value)


# Names that settings of trainings have too are qualified where they belong to the critics.
CRITIC = {name: f"critic_{name}" for name in ("lr", "label_lr", "epochs", "batch", "seed", "steps", "rounds")}
with_critics = with_fields(InformationCurve, leave_out=("blocks",), qualified=CRITIC, panel="Critics")
