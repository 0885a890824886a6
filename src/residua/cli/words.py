"""Options that need no PyTorch, and arguments before they are parsed."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from residua import plugins
from residua.device import PRECISION
from residua.errors import InputError


def _use(paths: list[Path] | None) -> list[Path] | None:
    plugins.add(paths or [])
    return paths


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PluginOption = Annotated[
    Optional[list[Path]],  # noqa: UP045 (typer reads it at run time)
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        callback=_use,
        is_eager=True,
        help="A Python file with methods or measures of yours, which is run; may be repeated.",
    ),
]
NetworkOption = Annotated[
    Optional[str],  # noqa: UP045 (typer reads it at run time)
    typer.Option(
        "--network",
        metavar="NAME|MODULE:CALLABLE",
        help="Architecture, if the checkpoint does not name one: resnet18, resnet50, vit, a network of an installed library "
        "(timm:convnext_atto,img_size=32), or module:callable (the current folder is importable).",
    ),
]
OurNetwork = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--network",
        metavar="NAME",
        help="resnet18, resnet50 or vit, as wide as the scale says.",
        show_default="resnet18",
    ),
]
JobsOption = Annotated[int, typer.Option(min=1, help="Models made side by side, one thread each.")]
CutsOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="NAME,NAME,...",
        help="Submodules at which the blocks of your network end, if it is not recognised.",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Open full pickles too. A pickle can run any program as you: only for files from people whom you trust "
        "with everything on this machine.",
    ),
]
MethodArgument = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="METHOD", help="COLA, SCRUB, EU-10, ... (see residua list), or file.py:Class."),
]
MethodOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--method", metavar="METHOD", help="The same, as an option."),
]


def one_method(word: str | None, option: str | None, command: str) -> str:
    """The method that was named as an argument or by --method."""
    if word and option and word.lower() != option.lower():
        raise InputError(f"two methods were named, {word} and {option}; name one")
    method = word or option
    if not method:
        raise InputError(
            f"no method was named; write residua {command} COLA ..., and see residua list for others"
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
    return values + [
        after for word, after in itertools.pairwise(arguments) if word == option and after != "--"
    ]


def command_line() -> str:
    """The command as it was typed, for the record; before it the number format, where the environment chose one."""
    chosen = os.environ.get(PRECISION)
    before = f"{PRECISION}={shlex.quote(chosen)} " if chosen else ""
    return before + shlex.join(["residua", *sys.argv[1:]])
