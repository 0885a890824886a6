"""The command line: the only package that prints. A command's file is imported when the command is used.

Exit codes: 0 done, 3 bad input (one sentence on standard error, no traceback), 70 an internal error (with its
traceback), 130 interrupted; `audit` has 1 for not forgotten and 2 for undetermined, `verify` 1 for a report that
does not follow.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from residua import plugins
from residua.cli.console import complain, err
from residua.cli.options import with_preprocessing
from residua.device import share_cores
from residua.errors import InputError, out_of_memory

# typer carries its own copy of click from some version on; both derive usage errors like this.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

# Python's own code for a crash is 1, which here is a verdict. This one is EX_SOFTWARE of sysexits.h.
CRASHED = 70

# The commands by the heading that --help shows them under, each with the first sentence of its help, so that --help
# imports no command. A command is the function of its name, or the group `app`, in the file of its name.
PANELS: dict[str, dict[str, str]] = {
    "Audit": {
        "audit": "Decide whether a model has forgotten: compare it with the original and with retrained models.",
        "verify": "Check a saved audit: recompute its hashes and every number that follows from its readings.",
        ""
        "export": "Export a saved audit or study as a page, a model card, a statement, JUnit XML or a figure; nothing is measured.",
        "explain": "Explain a metric, a method, a measure or a setting, or list them all.",
    },
    "Make models": {
        "train": "Train Original on all of the data, or Retrain without what is to be forgotten.",
        "unlearn": "Make a model forget, and report how long it took (RTE) and its UA, RA and TA.",
        "tune": "Search epochs and learning rates whose UA and TA are at most a point below Retrain's; never by IDI.",
    },
    "Measure": {
        "measure": "Measure metrics of models: what they say and, if asked for, what their blocks know.",
        ""
        "ulira": "Attack methods by likelihood ratios: can what was unlearned be distinguished from what was never seen?",
    },
    "Studies": {
        "study": "Run settings x methods x seeds with one command, and resume after any interruption.",
        ""
        "controls": "Audit Original, a further Retrain, Random, cheats and models made to deceive, and count the verdicts.",
        ""
        "calibrate": "Check the estimator on features whose mutual information is known exactly: bias, spread, coverage.",
    },
    "Data": {
        "data": "Inspect and download data sets.",
        ""
        "demo": "Forget class 6 (shirt) of the embedded Fashion-MNIST sample: what models say, what they know, the verdicts.",
    },
}
COMMANDS = {name: about for commands in PANELS.values() for name, about in commands.items()}
FILES = {"calibrate": "controls"}
# Commands that several processes do together under torchrun.
SHARED = ("train", "unlearn")


def loaded(name: str, arguments: Sequence[str] = ()) -> Any:
    """A command with all of its options, its file imported.

    A file whose command's options depend on its arguments (`residua unlearn COLA`) has a function `fitted`.
    """
    module = importlib.import_module(f"residua.cli.{FILES.get(name, name)}")
    if hasattr(module, "app"):
        return _command(name, module.app)
    function = module.fitted(arguments) if hasattr(module, "fitted") else getattr(module, name)
    return _command(name, with_preprocessing(function))


@functools.lru_cache(maxsize=64)
def _command(name: str, function: Callable[..., Any] | typer.Typer) -> Any:
    """The options are read from the signature once: typer would do so at each call."""
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    of_one = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    # Paragraphs on one line each: typer would keep the line breaks of the source.
    paragraphs = (" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))
    of_one.command(name, help="\n\n".join(paragraphs))(function)
    return typer.main.get_command(of_one)


class Lazy(typer.core.TyperGroup):
    """A group that knows the names and first sentences of all commands, and imports the one that is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ and name not in SHARED:
            raise InputError(
                f"residua {name} is one process, but torchrun started {os.environ['WORLD_SIZE']}; leave torchrun out"
            )
        return name, loaded(name, rest) if name in COMMANDS else command, rest


app = typer.Typer(
    name="residua",
    help="Does a model that was asked to forget still know?",
    cls=Lazy,
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
    group: Any = typer.main.get_command(app)
    for panel, commands in PANELS.items():
        for name, about in commands.items():
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
        complain(f"{error.filename or 'a file'} cannot be used ({error.strerror or error}); check path and space")
        return InputError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted; nothing was left half-written")
        return 130
    except Exception as error:
        if out_of_memory(error):
            complain(
                "the memory of the device ran out; use a smaller --batch or --accumulate, a GPU with more, or --device cpu"
            )
            return InputError.exit_code
        err.print(traceback.format_exc())
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
