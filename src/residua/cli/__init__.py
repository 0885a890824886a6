"""The command line: the only room that prints. A command's file is imported when the command is used.

Exit codes: 0 done, 3 bad input (one sentence on standard error, no traceback), 70 an internal error (with its
traceback), 130 interrupted; `audit` has 1 for not forgotten and 2 for undetermined, `verify` 1 for a report that
does not follow.
"""

from __future__ import annotations

import functools
import importlib
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer

from residua import plugins
from residua.cli.console import complain, err
from residua.cli.preparing import with_preprocessing
from residua.device import share_cores
from residua.errors import InputError
from residua.source import docstring

# typer carries its own copy of click from some version on; both derive usage errors like this.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

# Python's own code for a crash is 1, which here is a verdict. This one is EX_SOFTWARE of sysexits.h.
CRASHED = 70

# Where each command is, as `file:function`, under the heading that --help shows it under.
PANELS: dict[str, dict[str, str]] = {
    "Audit": {
        "audit": "audit:audit",
        "plan": "plan:plan",
        "report": "report:report",
        "verify": "verify:verify",
        "card": "card:card",
        "attest": "attest:attest",
        "figure": "figure:figure",
        "explain": "explain:explain",
    },
    "Make models": {"train": "train:train", "unlearn": "unlearn:unlearn", "tune": "tune:tuning"},
    "Measure": {"measure": "measure:measure", "idi": "idi:idi", "ulira": "ulira:ulira"},
    "Studies": {
        "study": "study:app",
        "catalogue": "catalogue:catalogue",
        "controls": "controls:controls",
        "calibrate": "calibrate:calibration",
        "reproduce": "reproduce:reproduce",
    },
    "Look up": {
        "list": "listing:listing",
        "recipes": "recipes:recipes",
        "data": "data:app",
        "demo": "demo:demo",
    },
}
PLACES = {name: place for commands in PANELS.values() for name, place in commands.items()}


def loaded(name: str, arguments: Sequence[str] = ()) -> Any:
    """A command with all of its options, its file imported.

    A file whose command's options depend on its arguments (`residua unlearn COLA`) has a function `fitted`.
    """
    file, _, inside = PLACES[name].partition(":")
    module = importlib.import_module(f"residua.cli.{file}")
    function = module.fitted(arguments) if hasattr(module, "fitted") else getattr(module, inside)
    return _command(name, function if isinstance(function, typer.Typer) else with_preprocessing(function))


@functools.lru_cache(maxsize=64)
def _command(name: str, function: Callable[..., Any] | typer.Typer) -> Any:
    """The options are read from the signature once: typer would do so at each call."""
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    of_one = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    of_one.command(name, help=_reflowed(function.__doc__ or ""))(function)
    return typer.main.get_command(of_one)


def _reflowed(text: str) -> str:
    """Paragraphs on one line each: typer would keep the line breaks of the source."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


class Lazy(typer.core.TyperGroup):
    """Knows the names and first sentences of all commands, and imports the one that is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, loaded(name, rest) if name in PLACES else command, rest


app = typer.Typer(
    name="residua",
    help="Does a model that was asked to forget still know?",
    cls=Lazy,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(installed_version("residua"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@functools.cache
def _group() -> Any:
    """All commands by name, as far as --help needs them."""
    group = typer.main.get_group(app)
    for panel, commands in PANELS.items():
        for name, place in commands.items():
            file, _, inside = place.partition(":")
            about = docstring(Path(__file__).parent / f"{file}.py", file if inside == "app" else inside)
            group.add_command(typer.core.TyperCommand(name, help=about, rich_help_panel=panel))
    return group


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        with plugins.using([]):  # --plugin holds for one command
            code = _group()(list(arguments) if arguments is not None else None, standalone_mode=False)
    except InputError as error:
        complain(str(error))
        return error.exit_code
    except _CommandLineError as error:
        complain(error.format_message())  # type: ignore[attr-defined]
        return InputError.exit_code
    except OSError as error:
        complain(
            f"{error.filename or 'a file'} cannot be used ({error.strerror or error}); check path and space"
        )
        return InputError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted; nothing was left half-written")
        return 130
    except Exception as error:
        err.print(traceback.format_exc(), markup=False)
        complain(f"internal error ({type(error).__name__}); no verdict was reached. Please report this.")
        return CRASHED
    if code == 130:
        complain("interrupted; nothing was left half-written")
    return code if isinstance(code, int) else 0


def run() -> None:
    """The `residua` command. SIGTERM counts as an interruption, so that workers are stopped too."""
    share_cores()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.filterwarnings("ignore", module=r"PIL\.")  # about images that are then read or refused by us
    sys.exit(main())
