"""Which study is meant: a built-in one or that of a file, cut down to what was asked for."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from residua.cli.console import say
from residua.errors import InputError

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE.py",
        help="tiny, small, one of the paper's such as paper-cifar10-resnet18, or a Python file with `study = Study(...)`.",
    ),
]
Method = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads it at run time)
    typer.Option(help="Only this method (and Original, Retrain); may be repeated."),
]
Seeds = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="Number of seeds (0, 1, ...); by default the study's own."),
]
Out = Annotated[Path, typer.Option(help="Folder of the study: cells, models, records.")]
Draws = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="Number of unlearning seeds of each Original; by default the study's own."),
]
Data = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--data", metavar="NAME[:DIR]", help="Data of a built-in study."),
]
Forget = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--forget", metavar="WHAT", help="What a built-in study forgets."),
]
TrajectoryOption = Annotated[
    bool,
    typer.Option(
        "--trajectory", help="Also read UA, RA and TA after every epoch of every method; the page shows them."
    ),
]
CompactOption = Annotated[
    bool,
    typer.Option(
        "--compact",
        help="Records of a tenth of the size: all values, but of samples only what tables and figures need.",
    ),
]
ALWAYS = ("Original", "Retrain")


def chosen_study(
    name: str,
    method: list[str] | None,
    seeds: int | None,
    draws: int | None,
    data: str | None,
    forget: str | None,
    network: str | None = None,
    trajectory: bool = False,
    compact: bool = False,
) -> Any:
    """A built-in study or that of a file, cut down to what was asked for."""
    from residua.study.built_in import BUILT_IN
    from residua.study.definition import Row, Study

    study: Any = None
    if name in BUILT_IN:
        study = BUILT_IN[name](data, forget, network, say)
    elif name.endswith(".py") and Path(name).is_file():
        if data or forget or network:
            raise InputError(
                f"{name} defines its own data and networks; leave --data, --forget and --network out"
            )
        study = runpy.run_path(name, run_name="residua_study").get("study")
        if not isinstance(study, Study):
            raise InputError(f"{name} defines no study; write study = Study(...) in it")
    else:
        known = ", ".join(BUILT_IN)
        raise InputError(
            f"there is no study {name!r}; give {known}, or a Python file with study = Study(...)"
        )
    if trajectory:
        study = dataclasses.replace(study, trajectories=True)
    if compact:
        study = dataclasses.replace(study, compact=True)
    if seeds is not None:
        study = dataclasses.replace(study, seeds=range(seeds))
    if draws is not None:
        study = dataclasses.replace(study, draws=draws)
    if method:
        from residua.unlearn import find

        rows = {row.label for row in study.rows}  # FT* is a row of its own, and comes with FT as well
        wanted = {*ALWAYS, *(label if label in rows else find(label).label for label in method)}
        given = study.methods

        def chosen(task: Any, network: Any) -> list[Any]:
            every = given(task, network) if callable(given) else given
            return [
                each
                for each in every
                if each.label in wanted or (isinstance(each, Row) and each.method.label in wanted)
            ]

        study = dataclasses.replace(study, methods=chosen)
    return study
