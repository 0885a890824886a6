"""`residua reproduce`: the paper's tables and figures, ours beside theirs, from records alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.cli.console import out as console
from residua.cli.console import say, show
from residua.cli.words import AsJson
from residua.errors import InputError
from residua.paper.cases import Scales
from residua.paper.drawings import checked_format, save
from residua.paper.reproducing import Reproduction, listing
from residua.paper.reproducing import reproduce as reproduced
from residua.paper.shelf import Shelf, open_shelf
from residua.paper.tables import Question, notes, rows_csv, shown
from residua.report import Table


def reproduce(
    label: Annotated[
        Optional[str],  # noqa: UP045 (typer reads it at run time)
        typer.Argument(metavar="LABEL", help="A table or figure of the paper, such as tab:main_baseline."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--list", help="Every label: what it needs, and whether records are there.")
    ] = False,
    records: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of records.", show_default="records/ here or in the checkout"),
    ] = None,
    scale: Annotated[
        Optional[Scales],  # noqa: UP045
        typer.Option(help="Whose records.", show_default="the largest that has much of it"),
    ] = None,
    reference: Annotated[
        str, typer.Option(help="Zero of IDI: Retrain, all (the mean of all Retrains), COLA, EU-10, ...")
    ] = "Retrain",
    last: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="How many of the last blocks IDI sums.", show_default="the paper's"),
    ] = None,
    family: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Critics: linear, network, nonlinear or stack.", show_default="the first of the records"
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per number.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Draw a figure into this file: .pdf, .svg or .png."),
    ] = None,
) -> None:
    """A table or figure of the paper: its numbers, ours, the difference, and what differs in scale.

    Nothing is trained or fitted. Where records are missing, the command that makes them is named.
    """
    if as_json + as_csv + as_latex + as_markdown > 1:
        raise InputError("--json, --csv, --latex and --markdown were given together; choose one")
    if every == (label is not None):
        raise InputError("name one table or figure, such as tab:main_baseline, or give --list for all")
    if out is not None:
        checked_format(out)
    shelf = open_shelf(_folder(records))
    if label is None:
        _list(shelf, scale, as_json)
        return
    made = reproduced(label, shelf, scale, Question(reference, last, family))
    if out is not None:
        if made.spec is None:
            raise InputError(
                f"{made.label} is a table; --out is for figures, use --csv, --latex or --markdown"
            )
        say(f"{save(made.spec, made.panels, out)} is drawn.")
    if as_json:
        console.print_json(json.dumps(made.as_json()))
    elif as_csv:
        console.print(rows_csv(made.rows), end="", markup=False)
    else:
        _show(made, "latex" if as_latex else "markdown" if as_markdown else "")


def _folder(given: Path | None) -> Path:
    """The folder that was named, or `records` here, or that of the checkout that this program runs from."""
    if given is not None:
        return given
    checkout = Path(__file__).resolve().parents[3] / "records"
    places = [Path("records"), checkout]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise InputError("there is no folder records/ here; give --records, a folder of records")
    return found


def _show(made: Reproduction, form: str) -> None:
    for part in made.parts:
        if not part.rows:
            console.print(f"{made.label}, {part.setting}\n{notes(part)}", markup=False)
            continue
        table = shown(part, spread=bool(form))
        if form:
            console.print(table.latex() if form == "latex" else table.markdown(), end="", markup=False)
        else:
            show(table)


def _list(shelf: Shelf, scale: str | None, as_json: bool) -> None:
    entries = listing(shelf, scale)
    if as_json:
        console.print_json(json.dumps({"labels": [vars(entry) for entry in entries]}))
        return
    show(
        Table(
            title="Tables and figures of the paper",
            columns=("Label", "Shows", "Needs of records", "Records there"),
            rows=tuple((entry.label, entry.about, entry.needs, entry.there) for entry in entries),
            note=f"Records are those of {shelf.folder}. residua reproduce LABEL says what makes what is missing.",
        )
    )
