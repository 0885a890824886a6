"""Options that several commands share, and how their words become objects."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
import shlex
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Optional, get_type_hints

import numpy as np
import torch
import typer

from residua.classifier import Classifier
from residua.cli.console import say
from residua.datasets import open_dataset
from residua.errors import InputError
from residua.files import check_place
from residua.record import NAME
from residua.strangers import open_model
from residua.task import Dataset, ForgetTask, forget_classes, forget_indices, forget_samples

DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="NAME[:DIR]",
        help="fashion-sample, or one of fashion-mnist, mnist, cifar10, cifar100, parquet, image-folder with its folder.",
    ),
]
ForgetOption = Annotated[
    str,
    typer.Option(
        "--forget",
        metavar="WHAT",
        help="class:6, classes:1,2, samples:50 (per class; samples:50:SEED), or indices:FILE (JSON list, .npy, or one number a line).",
    ),
]
NetworkOption = Annotated[
    Optional[str],  # noqa: UP045 (typer reads it at run time)
    typer.Option(
        "--network",
        metavar="NAME|MODULE:CALLABLE",
        help="What checkpoints that do not say it belong to: resnet18, resnet50, vit, or the function of yours "
        "that builds it; this folder is importable.",
    ),
]
CutsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="NAME,NAME,...",
        help="Submodules that end the blocks of a network of yours, where it is not recognised.",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Open full pickles too. A pickle can run any program in your name when it is opened: only for "
        "files whose maker you trust with everything on this machine.",
    ),
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same machine: same numbers.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]

# One word per idea: a field of this name means the same in every method and measure.
FIELD_HELP = {
    "epochs": "Passes over the data.",
    "batch": "Samples in a step.",
    "lr": "Learning rate.",
    "label_lr": "Learning rate of the critic's vector of each label.",
    "momentum": "Momentum of SGD.",
    "weight_decay": "L2 penalty on the weights.",
    "schedule": "Learning rate after the warm-up.",
    "warmup": "Share of the training in which the learning rate rises.",
    "nesterov": "Nesterov's momentum.",
    "clip": "Largest norm of the gradient.",
    "crop": "Black border, in pixels, of the random crop.",
    "flip": "Random horizontal flip.",
    "precision": "Number format of the arithmetic; auto takes bfloat16 where it pays.",
    "last": "How many of the last blocks.",
    "ratio": "Retain samples to keep: all, 1:5 (forget : retain) or 10%.",
    "protocol": "Read critics on unseen data, or as the paper seems to.",
    "folds": "Parts that take turns in being unseen.",
    "restarts": "Times that each critic is fitted.",
    "dim": "Numbers to which a critic projects.",
    "seed": "Seed of the critics and folds.",
    "retain_batch": "Retain samples in a step.",
    "forget_batch": "Forget samples in a step.",
    "forget_epochs": "Epochs in which the forget set is passed too (SCRUB).",
    "collapse_epochs": "Epochs of the collapse phase (COLA, COLA+).",
    "align_epochs": "Epochs of the align phase (COLA, COLA+).",
    "collapse_lr": "Learning rate of the collapse phase.",
    "align_lr": "Learning rate of the align phase.",
    "repair_epochs": "Epochs of the repair (UNSIR).",
    "repair_lr": "Learning rate of the repair (UNSIR).",
    "temperature": "Temperature of the softmax that is matched or contrasted.",
    "alpha": "Weight between the two sides of the method's loss; see the method's docstring.",
    "gamma": "Weight of the cross-entropy (SCRUB).",
    "k": "How many of the last layers (EU-k, CF-k).",
    "labels": "Where random labels are drawn from (RL).",
    "share": "Share of the weights that may move (SALUN).",
    "retain_share": "Share of the retain set that is used (Bad-T).",
    "pseudo": "Whose most likely other label a forget sample gets (COLA+).",
    "views": "Crops of each sample in a contrastive batch: 1 or 2.",
    "balanced": "Contrastive batches with equally many samples of each class.",
    "step": "Size of the adversarial step in pixels of [0, 1] (Boundary Shrink).",
    "dampening": "Factor on the weights that are dampened (SSD).",
    "samples": "Training samples that estimate importance (SSD).",
    "noise_steps": "Steps in which the noise is learned (UNSIR).",
    "noise_lr": "Learning rate of the noise (UNSIR).",
    "penalty": "Weight that keeps the noise small (UNSIR).",
}


def parse_forget(data: Dataset, words: str) -> ForgetTask:
    """`class:6`, `classes:1,2`, `samples:50[:SEED]` or `indices:FILE` of this data set."""
    kind, _, what = words.partition(":")
    try:
        if kind in ("class", "classes"):
            return forget_classes(data, [_class(data, word) for word in what.split(",") if word])
        if kind == "samples":
            per_class, _, seed = what.partition(":")
            return forget_samples(data, int(per_class), seed=int(seed or 0))
        if kind == "indices":
            return forget_indices(data, _read_indices(Path(what)))
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(
        f"--forget {words!r} is not understood; write class:6, classes:1,2, samples:50 or indices:FILE"
    )


def _class(data: Dataset, word: str) -> int:
    return data.class_names.index(word) if word in data.class_names else int(word)


def _read_indices(path: Path) -> torch.Tensor:
    if not path.is_file():
        raise InputError(f"{path} does not exist; give a file of training indices after indices:")
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                found = np.load(file, allow_pickle=False)
        elif path.suffix == ".json":
            found = np.asarray(json.loads(path.read_text()))
        else:
            found = np.asarray([int(line) for line in path.read_text().split()], dtype=np.int64)
        if isinstance(found, np.ndarray) and found.dtype.kind in "iu":
            if found.size and int(found.max()) > np.iinfo(np.int64).max:
                raise OverflowError(f"{found.max()} is too large")
            found = found.astype(np.int64)
        return torch.as_tensor(found)
    except (
        ValueError,
        TypeError,
        EOFError,
        OverflowError,
        RecursionError,
        MemoryError,
        zipfile.BadZipFile,
    ) as error:
        raise InputError(
            f"{path} does not hold training indices ({error}); write one whole number a line"
        ) from error


def open_task(data: str, forget: str) -> ForgetTask:
    """The task, and a word about equal images on two sides of it."""
    task = parse_forget(open_dataset(data), forget)
    for sides, pairs in task.duplicates().items():
        if pairs:
            say(
                f"note: {len(pairs)} pairs of exactly equal images in {sides} (first: {pairs[0][0]} and {pairs[0][1]})"
            )
    return task


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
    return open_model(
        path,
        network,
        cuts=None if cuts is None else [name.strip() for name in cuts.split(",")],
        trust=trust,
        classes=task.classes,
        channels=channels,
        image=(height, width),
        device=str(device),
    )


def check_outputs(out: Path, record: Path | None) -> None:
    """Refuse places for a checkpoint and a record before the work begins, not after it."""
    if out.suffix != ".safetensors":
        raise InputError(f"--out {out} must end in .safetensors, the only format that is written")
    if record and record.suffix != ".json":
        raise InputError(f"--record {record} must end in .json")
    if record and not re.fullmatch(NAME, record.stem):
        raise InputError(
            f"--record {record} must be named in small letters, digits, dots and dashes; rename it"
        )
    for path in filter(None, (out, record)):
        check_place(path)


def record_name(words: str) -> str:
    """The name of a model as a record can have it."""
    return re.sub(r"[^a-z0-9._-]+", "-", words.lower()).strip("-._") or "model"


def named(
    others: Mapping[str, Path | None], models: Sequence[Path], *, kept: Sequence[str] = ()
) -> dict[str, Path]:
    """A name for each checkpoint; where two would share one, or a record's, a number behind it.

    `kept` are names that none of `models` may have.
    """
    found = {name: path for name, path in others.items() if path}
    taken = {record_name(name) for name in (*found, *kept)}
    for path in models:
        name, number = path.stem, 2
        while record_name(name) in taken:
            name, number = f"{path.stem} {number}", number + 1
        taken.add(record_name(name))
        found[name] = path
    return found


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


def command_line() -> str:
    """The command as it was typed, for the record."""
    return shlex.join(["residua", *sys.argv[1:]])


def with_fields(
    *settings: type, leave_out: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Every field of these dataclasses becomes an option; those given reach the command as `fields`."""
    hints: dict[str, Any] = {}
    panel: dict[str, str] = {}
    for kind in settings:
        own_hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name not in leave_out and field.name not in hints:
                hints[field.name] = own_hints[field.name]
                panel[field.name] = kind.__name__ if len(settings) == 1 else "Settings of the method"
    names = list(hints)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        shared = [p for name, p in own.parameters.items() if name != "fields"]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    Optional[hints[name]],  # noqa: UP045 (typer reads it at run time)
                    typer.Option(help=FIELD_HELP.get(name), rich_help_panel=panel[name]),
                ],
            )
            for name in names
        ]

        @functools.wraps(command)
        def call(**given: Any) -> Any:
            fields = {name: value for name in names if (value := given.pop(name)) is not None}
            return command(**given, fields=fields)

        call.__signature__ = own.replace(parameters=shared + added)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in shared + added}
        return call

    return decorate
