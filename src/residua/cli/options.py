"""Options that several commands share, and how their values become objects."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, get_args, get_origin

import torch
import typer

from residua.cli.console import say
from residua.cli.preparing import carried_by
from residua.cli.words import CutsOption as CutsOption
from residua.cli.words import NetworkOption as NetworkOption
from residua.cli.words import TrustOption as TrustOption
from residua.cli.words import command_line as command_line
from residua.data.preprocessing import Preprocessing
from residua.data.task import ForgetTask
from residua.data.words import open_dataset, parse_forget, split_settings
from residua.errors import InputError
from residua.files import check_place
from residua.models.classifier import Classifier
from residua.models.foreign.opening import open_model
from residua.record import NAME
from residua.texts import slug
from residua.training.recipes import Scale
from residua.training.settings import described

DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="NAME[:PLACE]",
        help="fashion-sample; one of fashion-mnist, mnist, cifar10, cifar100, parquet, image-folder, hf-datasets with its "
        "folder; npz or csv with its file. ?part=0.2 behind it takes a fifth of the training images. For tables and text, "
        "audit saved features.",
    ),
]
ForgetOption = Annotated[
    str,
    typer.Option(
        "--forget",
        metavar="WHAT",
        help="class:6, classes:1,2, samples:50 (per class; samples:50:SEED), or indices:FILE (JSON list, .npy, or one number per line).",
    ),
]
ScaleOption = Annotated[
    Scale,
    typer.Option(
        help="Default hyperparameters: ours (tiny, small) or the paper's (full). Explicit options override them."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same machine: same numbers.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]


def open_task(
    data: str,
    forget: str,
    models: Sequence[str | Path | None] = (),
    shown: Preprocessing | None = None,
) -> ForgetTask:
    """The task, shown as its models expect it, and notes about the data.

    Where the words do not say how images are prepared, `shown` does, and without it the checkpoints of `models`.
    """
    carried, source = carried_by(models) if models and not _normalised(data) and not shown else (shown, "")
    opened = open_dataset(data, carried=carried)
    for note in opened.notes:
        say(f"note: {note}")
    task = parse_forget(opened, forget)
    task = dataclasses.replace(task, preprocessed=_source(data, source))
    for splits, pairs in task.duplicates().items():
        if pairs:
            say(
                f"note: {len(pairs)} pairs of exactly equal images in {splits} (first: {pairs[0][0]} and {pairs[0][1]})"
            )
    return task


def _normalised(data: str) -> bool:
    return bool(split_settings(data)[1].keys() & {"mean", "normalise"})


def _source(data: str, source: str) -> str:
    asked = split_settings(data)[1].keys() & {"size", "mean", "normalise"}
    if asked:
        return "as asked"
    return f"as {source} says" if source else "the data's own; no checkpoint says otherwise"


def load_for(
    task: ForgetTask,
    path: Path,
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
        raise InputError(
            f"--record {record} must be named in lower-case letters, digits, dots and dashes; rename it"
        )
    for path in filter(None, (out, record)):
        check_place(path)


def named(
    others: Mapping[str, Path | None], models: Sequence[Path], *, kept: Sequence[str] = ()
) -> dict[str, Path]:
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


def choose_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name} cannot be used here ({str(error).splitlines()[0]}); try cpu"
        ) from error
    return device


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
        name: each
        for name, each in described(kind).items()
        if name not in leave_out and _can_be_typed(each.type)
    }
    shown = _own_defaults(kind) | dict(defaults or {})
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
            fields = {
                name: value for name, option in names.items() if (value := given.pop(option)) is not None
            }
            return command(**given, fields=fields)

        call.__signature__ = own.replace(parameters=shared + added)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in shared + added}
        return call

    return decorate


def _can_be_typed(hint: Any) -> bool:
    """Whether a word can be a value of this type; a field of another type is set in Python."""
    if get_origin(hint) is Literal:
        return all(isinstance(value, str) for value in get_args(hint))
    members = [member for member in get_args(hint) or (hint,) if member is not type(None)]
    return len(members) == 1 and members[0] in (int, float, str, bool, Path)


def _own_defaults(kind: Any) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(kind)}


def _shown(option: str, value: Any) -> str | bool:
    """A default as --help shows it; what is not set is not shown."""
    if value is None or value is dataclasses.MISSING:
        return False
    if isinstance(value, bool):
        return option.replace("_", "-") if value else f"no-{option.replace('_', '-')}"
    return str(value)


# Options that trainings have too are qualified where they are the critics'.
CRITIC = {name: f"critic_{name}" for name in ("lr", "label_lr", "epochs", "batch", "seed", "steps", "rounds")}
