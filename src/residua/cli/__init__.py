"""The command line: the only room that prints.

Exit codes: 0 done, 3 bad input (one sentence on standard error, no traceback), 70 an error that was not
foreseen (with its traceback), 130 interrupted; `audit` has 1 for not forgotten and 2 for undetermined, `verify`
1 for a report that does not follow.
"""

from __future__ import annotations

import functools
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from residua.cli import (
    audit,
    calibrate,
    catalogue,
    controls,
    data,
    demo,
    explain,
    idi,
    listing,
    measure,
    train,
    tune,
    ulira,
    unlearn,
)
from residua.cli.console import complain
from residua.errors import InputError

# typer carries its own copy of click from some version on; both derive usage errors like this.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

# Python's own code for a crash is 1, which here is a verdict. This one is EX_SOFTWARE of sysexits.h.
CRASHED = 70

app = typer.Typer(
    name="residua",
    help="Does a model that was asked to forget still know?",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("unlearn")(unlearn.unlearn)
app.command("tune")(tune.tuning)
app.command("measure")(measure.measure)
app.command("ulira")(ulira.ulira)
app.command("explain")(explain.explain)
app.command("idi")(idi.idi)
app.command("audit")(audit.audit)
app.command("verify")(audit.verify)
app.command("controls")(controls.controls)
app.command("calibrate")(calibrate.calibration)
app.command("catalogue")(catalogue.catalogue)
app.command("list")(listing.listing)
app.command("recipes")(listing.recipes)
app.add_typer(data.app, name="data")


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
def _commands() -> Any:
    """Every command and its options, read from the signatures once: typer would do so at each call."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    try:
        code = _commands()(list(arguments) if arguments is not None else None, standalone_mode=False)
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
        traceback.print_exc()
        complain(f"stopped by an error that was not foreseen ({type(error).__name__}); nothing was decided")
        return CRASHED
    if code == 130:
        complain("interrupted; nothing was left half-written")
    return code if isinstance(code, int) else 0


def run() -> None:
    """The `residua` command. Being told to stop is being interrupted: workers are stopped too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
