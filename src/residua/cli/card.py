"""`residua card`: an audit as a section of a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.audits.attesting import checked
from residua.cli.console import out as console
from residua.files import check_place, write_atomically
from residua.report.card import card as section

SavedAudit = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that `residua audit --out` wrote.")
]
ToFile = Annotated[
    Optional[Path],  # noqa: UP045 (typer reads it at run time)
    typer.Option("--out", metavar="FILE", help="Write to this file instead of printing."),
]


def card(folder: SavedAudit, out: ToFile = None) -> None:
    """Print a section for the model card of an audited model, in Markdown.

    The report is checked first: one that does not follow from its records is refused.
    """
    if out is not None:
        check_place(out)
    give(section(*checked(folder)), out)


def give(text: str, out: Path | None) -> None:
    """Print the text, or write it to the file."""
    if out is None:
        console.print(text, end="", markup=False)
    else:
        write_atomically(out, lambda part: part.write_text(text, "utf-8"))
