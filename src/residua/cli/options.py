"""Options that several commands share, and arguments before they are parsed; nothing here needs PyTorch."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from residua import plugins
from residua.device import PRECISION
from residua.errors import InputError
from residua.files import file_hash
from residua.roles import reference_role, references_in


def panel(heading: str) -> Callable[..., Any]:
    """A function that declares an option under this heading of --help: its help, its names, and typer's settings."""

    def option(text: str, *names: str, **settings: Any) -> Any:
        return typer.Option(*names, help=text, rich_help_panel=heading, **settings)

    return option


models, data, methods = panel("Models"), panel("Data"), panel("Methods")
images, extras = panel("Images, as the model expects them"), panel("Further measurements")
rules, critics, run, output = panel("Rules of the verdict"), panel("Critics"), panel("Run"), panel("Output")


def _use(paths: list[Path] | None) -> list[Path] | None:
    plugins.add(paths or [])
    return paths


Data = Annotated[
    str,
    data(
        "Data set: fashion-sample; one of fashion-mnist, mnist, cifar10, cifar100, parquet, image-folder, "
        "hf-datasets with its folder; npz or csv with its file. ?part=0.2 behind it takes a fifth of the "
        "training images. For tables and text, audit saved features.",
        "--data",
        metavar="NAME[:PLACE]",
    ),
]
Forget = Annotated[
    str,
    data(
        "Data to forget: class:6, classes:1,2, samples:50 (per class; samples:50:SEED), or indices:FILE "
        "(JSON list, .npy, or one number per line).",
        "--forget",
        metavar="WHAT",
    ),
]
AsJson = Annotated[bool, output("Print JSON.", "--json")]
Plugins = Annotated[
    list[Path] | None,
    methods(
        "Python file with methods or measures of your own; it is executed. May be repeated.",
        "--plugin",
        metavar="FILE.py",
        callback=_use,
        is_eager=True,
    ),
]
Network = Annotated[
    str | None,
    models(
        "Architecture, if the checkpoint does not name one: resnet18, resnet50, vit, a network of an "
        "installed library (timm:convnext_atto,drop_rate=0.1), or module:callable (the current folder is "
        "importable).",
        "--network",
        metavar="NAME|MODULE:CALLABLE",
    ),
]
OurNetwork = Annotated[
    str | None,
    models(
        "Architecture: resnet18, resnet50 or vit, as wide as the scale says.",
        "--network",
        metavar="NAME",
        show_default="resnet18",
    ),
]
Init = Annotated[
    str | None,
    models(
        "Start from these weights: ours, or under the names of timm, torchvision or Hugging Face, or timm:NAME or "
        "hf:NAME of the installed library; the head is new if it has other classes.",
        "--init",
        metavar="FILE|timm:NAME|hf:NAME",
    ),
]
Started = Annotated[
    str | None,
    models(
        "Weights that Original's training started from, where whatever is retrained starts again: Retrain, EU-k, proxies.",
        "--init",
        metavar="FILE|timm:NAME|hf:NAME",
    ),
]
Cuts = Annotated[
    str | None,
    models("Submodules at which the blocks of your network end, if it is not recognised.", metavar="NAME,NAME,..."),
]
Trust = Annotated[
    bool,
    models(
        "Open full pickles too. A pickle can run any program as you: only for files from people whom you "
        "trust with everything on this machine.",
        "--trust",
    ),
]
MethodName = Annotated[
    str | None,
    typer.Argument(metavar="METHOD", help="COLA, SCRUB, EU-10, ... (see residua explain methods), or file.py:Class."),
]
MethodOption = Annotated[str | None, methods("METHOD, given as an option instead.", "--method", metavar="METHOD")]
CheckpointOut = Annotated[Path, output("Checkpoint to write (.safetensors).", metavar="FILE")]
RecordOut = Annotated[Path | None, output("Record of the run to write (.json).", metavar="FILE")]
Seed = Annotated[int, run("Same seed, same machine: same numbers.")]
Jobs = Annotated[int, run("Models made in parallel, one thread each.", min=1)]
Device = Annotated[str, run("cpu, cuda, cuda:1, mps, or auto: a GPU where there is one.")]
Margin = Annotated[
    float | None,
    rules(
        "Tolerated IDI. To pass, the whole interval of the IDI must lie within +- this value.",
        show_default="0.25, or 0.5 with one reference",
    ),
]
# How images are prepared; they reach a command as part of the words of --data.
IMAGE_OPTIONS: dict[str, Any] = {
    "size": Annotated[int | None, images("Side in pixels, if images are to be resized.", min=1)],
    "mean": Annotated[str | None, images("Mean per channel, white being 1.", metavar="R,G,B")],
    "std": Annotated[str | None, images("Standard deviation per channel.", metavar="R,G,B")],
    "normalise": Annotated[
        Literal["imagenet", "data", "none"] | None,
        images("Instead of --mean and --std: ImageNet's, those of the training data, or none."),
    ],
    "rehash": Annotated[
        bool | None, images("Read all image files again instead of trusting the digests kept beside them.", "--rehash")
    ],
    "limit": Annotated[
        int | None,
        data("Quick look: at most this many training and this many test examples, the same ones every time.", min=1),
    ],
    "dataset_name": Annotated[str | None, images("Name of the data set; recipes are chosen by it.")],
}


@functools.cache
def with_preprocessing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with options for size and normalisation, which reach it as part of the words of --data."""
    own = inspect.signature(command, eval_str=True)
    if "data" not in own.parameters or isinstance(command, type):
        return command
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in IMAGE_OPTIONS.items()
        if name not in own.parameters
    ]

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        asked = {p.name: given.pop(p.name) for p in added}
        asked = {name: value for name, value in asked.items() if value is not None}
        if asked:
            from residua.data.parsing import with_settings

            if given.get("data") is None:
                option = next(iter(asked)).replace("_", "-")
                raise InputError(f"--{option} is about images; give --data too, or leave it out")
            name = asked.pop("dataset_name", None)
            given["data"] = with_settings(given["data"], **asked, name=name)
        return command(**given)

    return with_parameters(call, [*own.parameters.values(), *added])


def with_parameters(call: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """`call`, showing these parameters to typer."""
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def one_method(word: str | None, option: str | None, command: str) -> str:
    """The method that was named as an argument or by --method."""
    if word and option and word.lower() != option.lower():
        raise InputError(f"two methods were named, {word} and {option}; name one")
    method = word or option
    if not method:
        raise InputError(
            f"no method was named; write residua {command} COLA ..., and see residua explain methods for others"
        )
    return method


def named_method(arguments: Sequence[str]) -> str | None:
    """The method in arguments that are not parsed yet: the first one, or the value of --method."""
    plugins.add(given(arguments, "--plugin"))
    named = given(arguments, "--method")
    if named:
        return named[-1]
    return arguments[0] if arguments and not arguments[0].startswith("-") else None


def given(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option in arguments that are not parsed yet."""
    values = [word.partition("=")[2] for word in arguments if word.startswith(f"{option}=")]
    return values + [after for word, after in itertools.pairwise(arguments) if word == option and after != "--"]


def command_line() -> str:
    """The command as it was typed, for the record; before it the number format, where the environment chose one."""
    chosen = os.environ.get(PRECISION)
    before = f"{PRECISION}={shlex.quote(chosen)} " if chosen else ""
    return before + shlex.join(["residua", *sys.argv[1:]])


# Models as they are typed: files, folders, or a word for references that the audit makes itself.
MODEL_FILES = (".safetensors", ".pt", ".pth", ".npz")


def is_keyword(word: str) -> bool:
    """True if a word of --reference names no file: none, or a proxy that the audit trains."""
    return word == "none" or word.startswith("proxy:")


def references_by_role(words: Sequence[str]) -> dict[str, str]:
    """The references that were typed, by role; a folder stands for the models and saved files in it."""
    files: list[str] = []
    for word in words:
        folder = Path(word)
        if is_keyword(word) or not folder.is_dir() or (folder / "config.json").exists():
            files.append(word)  # a folder with a config.json is one model
            continue
        found = sorted(str(path) for path in folder.iterdir() if path.suffix in MODEL_FILES)
        if not found:
            kinds = ", ".join(MODEL_FILES)
            raise InputError(f"--reference {word} is a folder without models ({kinds}); give files or another folder")
        files += found
    if len(files) > 1 and any(is_keyword(file) for file in files):
        raise InputError(
            f"--reference {next(filter(is_keyword, files))} stands alone; give files, proxy:0.15x3 or none"
        )
    return {reference_role(number): file for number, file in enumerate(files, start=1)}


def files_of(words: str) -> list[Path]:
    """One file, or several separated by commas; an existing file whose name has a comma is one."""
    return [Path(words)] if exists(Path(words)) else [Path(word) for word in words.split(",")]


def exists(path: Path) -> bool:
    """True if there is such a file; False for a name that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def file_hashes(words: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of each single file that was typed, by role, which identifies the file that was audited."""
    files = {role: files_of(word) for role, word in words.items() if not is_keyword(word)}
    return {role: file_hash(paths[0]) for role, paths in files.items() if len(paths) == 1 and paths[0].is_file()}


def as_kwargs(models: Mapping[str, Any]) -> dict[str, Any]:
    """Models by role as `audit` and `rerun` take them: the references in one list."""
    references = [models[role] for role in references_in(models)]
    names = {"original": "original", "unlearned": "unlearned", "start": "init"}
    others = {names[role]: model for role, model in models.items() if role in names}
    return others | ({"reference": references} if references else {})
