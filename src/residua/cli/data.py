"""`residua data`: inspect and download data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli import options as opt
from residua.cli.console import echo_json, live_line, say
from residua.cli.console import show as show_table
from residua.cli.inputs import open_task
from residua.data import fetch as fetch_files
from residua.data import open_dataset
from residua.report.table import Table

app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def data() -> None:
    """Inspect and download data sets."""


@app.command()
@opt.with_preprocessing
def show(data: opt.Data, as_json: opt.AsJson = False) -> None:
    """Show the sizes, classes and normalisation of a data set of images.

    Models of tables, text or sound need none: they are audited by the features and outputs that they saved
    (docs/saved.md).

    Example: residua data show --data fashion-sample
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
        echo_json(about)
        return
    channels, height, width = opened.shape
    names = opened.class_names or [str(c) for c in range(opened.classes)]
    rows = [
        (str(c), str(name), str(train), str(test))
        for c, (name, train, test) in enumerate(zip(names, opened.train.counts(), opened.test.counts(), strict=True))
    ]
    mean, std = (", ".join(f"{value:.3f}" for value in values) for values in (opened.train.mean, opened.train.std))
    show_table(
        Table(
            title=f"{opened.name}: {channels} x {height} x {width} pixels, {opened.classes} classes",
            columns=("Class", "Name", "Train", "Test"),
            rows=(*rows, ("all", "", str(len(opened.train)), str(len(opened.test)))),
            note=f"Normalised by the mean {mean} and the standard deviation {std} of each channel.",
        )
    )


@app.command()
@opt.with_preprocessing
def manifest(data: opt.Data, forget: opt.Forget) -> None:
    """Print the hashes, sizes and duplicates of a task, as JSON.

    Example: residua data manifest --data fashion-sample --forget class:6
    """
    echo_json(open_task(data, forget).manifest())


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Data set: cifar10, cifar100, mnist or fashion-mnist.")],
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")],
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of another server to download from.")
    ] = None,
) -> None:
    """Download a data set: resumed where it stopped, and checked.

    Example: residua data fetch cifar10 --to data/
    """
    with live_line() as update:

        def progress(file: str, done: int, total: int | None) -> None:
            update(file if total is None else f"{file} {done / total:.0%}", done / total if total else None)

        fetch_files(name, to, mirror=mirror, progress=progress)
    say(f"{name} is in {to}; use it as --data {name}:{to}")
