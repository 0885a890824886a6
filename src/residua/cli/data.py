"""`residua data`: look at data sets, and fetch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.progress import TaskID

from residua.cli.console import download_bar, out, say
from residua.cli.console import show as show_table
from residua.cli.options import DataOption, ForgetOption, open_task
from residua.cli.preparing import with_preprocessing
from residua.cli.words import AsJson
from residua.data import fetch as fetch_files
from residua.data import open_dataset
from residua.report.table import Table

app = typer.Typer(help="Look at data sets, and fetch them.")


@app.callback()
def data() -> None:
    """Look at data sets, and fetch them."""


@app.command()
@with_preprocessing
def show(data: DataOption, as_json: AsJson = False) -> None:
    """Sizes, classes and normalisation of a data set of images.

    Models of tables, text or sound need none: they are audited by the features and outputs that they saved
    (docs/saved.md).
    """
    opened = open_dataset(data)
    for note in opened.notes:
        say(f"note: {note}")
    about = {
        "name": opened.name,
        "shape": opened.shape,
        "classes": opened.classes,
        "class_names": opened.class_names,
        "train": {"n": len(opened.train), "per_class": opened.train.counts()},
        "test": {"n": len(opened.test), "per_class": opened.test.counts()},
        "mean": opened.train.mean,
        "std": opened.train.std,
    }
    if as_json:
        out.print_json(json.dumps(about))
        return
    channels, height, width = opened.shape
    names = opened.class_names or [str(c) for c in range(opened.classes)]
    rows = [
        (str(c), str(name), str(train), str(test))
        for c, (name, train, test) in enumerate(
            zip(names, opened.train.counts(), opened.test.counts(), strict=True)
        )
    ]
    mean, std = (
        ", ".join(f"{value:.3f}" for value in values) for values in (opened.train.mean, opened.train.std)
    )
    show_table(
        Table(
            title=f"{opened.name}: {channels} x {height} x {width} pixels, {opened.classes} classes",
            columns=("Class", "Name", "Train", "Test"),
            rows=(*rows, ("all", "", str(len(opened.train)), str(len(opened.test)))),
            note=f"Normalised by the mean {mean} and the standard deviation {std} of each channel.",
        )
    )


@app.command()
@with_preprocessing
def manifest(data: DataOption, forget: ForgetOption) -> None:
    """The hashes, sizes and duplicates of a task, as JSON."""
    out.print_json(json.dumps(open_task(data, forget).manifest()))


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100, mnist or fashion-mnist.")],
    to: Annotated[Path, typer.Option(help="The folder to put the files in.")],
    mirror: Annotated[Optional[str], typer.Option(help="Another address to download the files from.")] = None,  # noqa: UP045
) -> None:
    """Download a data set: resumed where it stopped, and checked."""
    with download_bar() as progress:
        bars: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file)
            progress.update(bars[file], completed=done, total=total)

        fetch_files(name, to, mirror=mirror, progress=update)
    say(f"{name} is in {to}; use it as --data {name}:{to}")
