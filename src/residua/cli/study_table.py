"""`residua study table`: methods side by side, and other questions to the same records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer

from residua.cli.console import out as console
from residua.cli.console import show
from residua.cli.words import AsJson
from residua.errors import InputError


def _with_records(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give that of a study, or any folder of records")
    return folder


def table(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", callback=_with_records, help="The folder of a study, or any folder of records."
        ),
    ],
    by: Annotated[
        Optional[Literal["reference", "last", "block", "family"]],  # noqa: UP045
        typer.Option(help="IDI by reference, number of last blocks or critics; or information by block."),
    ] = None,
    reference: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Zero of IDI: a method, or all Retrains (all); several with --by reference.",
            show_default="Retrain",
        ),
    ] = None,
    last: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1, help="How many of the last blocks IDI sums.", show_default="all that were measured"
        ),
    ] = None,
    family: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Critics: linear, network, nonlinear or stack.", show_default="the first measured"),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per model.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Methods side by side: mean, standard deviation and n; ties with the best are marked together.

    Other references, numbers of blocks and critics are arithmetic on what is stored: nothing is fitted again.
    """
    from residua.cli.report import records_in
    from residua.report.studies import study_rows, study_tables

    if as_json + as_csv + as_latex + as_markdown > 1:
        raise InputError("--json, --csv, --latex and --markdown were given together; choose one")
    records = records_in(folder)
    if by is None and len(reference or []) > 1:
        raise InputError("several references were given; add --by reference to see them side by side")
    tables: list[Any]
    if by is None:
        zero = (reference or ["Retrain"])[0]
        rows = study_rows(records, reference=zero, last=last, family=family) if as_json or as_csv else []
        tables = [] if as_json or as_csv else study_tables(records, zero, last=last, family=family)
    else:
        from residua.paper.questions import asked_of, asked_rows, asked_table
        from residua.paper.shelf import shelved

        groups = [group for group in shelved(records).groups if any(model.curves for model in group.models)]
        if not groups:
            raise InputError(f"{folder} holds no information curves; measure them first")
        answers = [asked_of(g, by, references=reference or [], last=last, family=family) for g in groups]
        rows = [row for g, a in zip(groups, answers, strict=True) for row in asked_rows(g, a)]
        tables = [asked_table(g, by, a) for g, a in zip(groups, answers, strict=True)]
    if as_json:
        console.print_json(json.dumps({"rows": rows}))
    elif as_csv:
        console.print(_csv(rows), end="", markup=False)
    for each in () if as_json or as_csv else tables:
        if as_latex or as_markdown:
            console.print(each.latex() if as_latex else each.markdown(), end="", markup=False)
        else:
            show(each)


def _csv(rows: list[dict[str, Any]]) -> str:
    from residua.report import Table

    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple("" if row.get(name) is None else str(row[name]) for name in names) for row in rows)
    return Table("", tuple(names), cells).csv()
