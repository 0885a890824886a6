"""Size and normalisation on the command line: options of every command that opens data, and the first line of an audit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from residua.errors import InputError

if TYPE_CHECKING:
    from residua.data.preprocessing import Preprocessing
    from residua.data.task import ForgetTask
    from residua.models.classifier import Classifier

PANEL = "Images, as the model expects them"
OPTIONS: dict[str, Any] = {
    "size": Annotated[
        Optional[int],  # noqa: UP045 (typer reads it at run time)
        typer.Option(min=1, help="Side in pixels, if images are to be resized.", rich_help_panel=PANEL),
    ],
    "mean": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="R,G,B", help="Mean per channel, white being 1.", rich_help_panel=PANEL),
    ],
    "std": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="R,G,B", help="Standard deviation per channel.", rich_help_panel=PANEL),
    ],
    "normalise": Annotated[
        Optional[Literal["imagenet", "data", "none"]],  # noqa: UP045
        typer.Option(
            help="Instead of --mean and --std: ImageNet's, those of the training data, or none.",
            rich_help_panel=PANEL,
        ),
    ],
    "dataset_name": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="What the data are called; recipes go by it.", rich_help_panel=PANEL),
    ],
}


@functools.cache
def with_preprocessing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with options for size and normalisation, which reach it as part of the words of --data."""
    own = inspect.signature(command, eval_str=True)
    if "data" not in own.parameters or isinstance(command, type):
        return command
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in OPTIONS.items()
        if name not in own.parameters
    ]

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        asked = {p.name: given.pop(p.name) for p in added}
        asked = {name: value for name, value in asked.items() if value is not None}
        if asked:
            from residua.data.words import with_settings

            if given.get("data") is None:
                option = next(iter(asked)).replace("_", "-")
                raise InputError(f"--{option} is about images; give --data too, or leave it out")
            name = asked.pop("dataset_name", None)
            given["data"] = with_settings(given["data"], **asked, name=name)
        return command(**given)

    parameters = [*own.parameters.values(), *added]
    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def carried_by(models: Sequence[str | Path | None]) -> tuple[Preprocessing | None, str]:
    """What the checkpoints say that their models expect, and the file that says it; all must say the same."""
    from residua.data.preprocessing import from_checkpoint
    from residua.models.checkpoint import preprocessing_in

    first: tuple[Preprocessing | None, str] = (None, "")
    for path in models:
        if path is None:
            continue
        found = from_checkpoint(preprocessing_in(path))
        if found is None:
            continue
        if first[0] is not None and not _alike(first[0], found):
            raise InputError(
                f"{first[1]} and {path} were trained on images of another size or normalisation, so no one way to show "
                "images serves both; audit them on the same, with --size and --mean and --std if you know it"
            )
        first = first if first[0] is not None else (found, str(path))
    return first


def _alike(one: Preprocessing, other: Preprocessing) -> bool:
    numbers = zip(
        (*(one.mean or ()), *(one.std or ())), (*(other.mean or ()), *(other.std or ())), strict=False
    )
    return (
        one.size == other.size
        and len(one.mean or ()) == len(other.mean or ())
        and all(abs(a - b) < 1e-4 for a, b in numbers)
    )


def introduction(task: ForgetTask, original: Classifier) -> list[str]:
    """What the models are shown, and whether Original makes anything of it."""
    from residua.measure._outputs import logits

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
    lines = [
        f"Images {channels} x {height} x {width}, mean {mean}, std {std}"
        + (f" ({task.preprocessed})" if task.preprocessed else "")
        + f". Original's accuracy: {100 * right['test']:.1f} % on test, {100 * right['forget']:.1f} % on {what}."
    ]
    chance = 1 / task.classes
    low = [name for name, value in right.items() if value <= chance + 0.5 * min(chance, 0.2)]
    if low:
        where = " and ".join({"test": "test", "forget": what}[name] for name in low)
        lines.append(
            f"warning: Original is near chance ({100 * chance:.1f} %) on {where}. Is that how it was trained to see images? "
            "--size, --mean, --std and --normalise change it, --network its architecture."
        )
    return lines
