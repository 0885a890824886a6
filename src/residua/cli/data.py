"""`residua data`: look at data sets, and fetch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.progress import TaskID

from residua.cli.console import download_bar, out, say
from residua.cli.options import DataOption, ForgetOption, open_task
from residua.datasets import fetch as fetch_files
from residua.datasets import open_dataset

app = typer.Typer(help="Look at data sets, and fetch them.")


@app.command()
def show(data: DataOption) -> None:
    """Sizes, classes and normalisation of a data set."""
    found = open_dataset(data)
    out.print_json(
        json.dumps(
            {
                "name": found.name,
                "shape": found.shape,
                "classes": found.classes,
                "class_names": found.class_names,
                "train": {"n": len(found.train), "per_class": found.train.counts()},
                "test": {"n": len(found.test), "per_class": found.test.counts()},
                "mean": found.train.mean,
                "std": found.train.std,
            }
        )
    )


@app.command()
def manifest(data: DataOption, forget: ForgetOption) -> None:
    """The hashes, sizes and duplicates of a task, as JSON."""
    out.print_json(json.dumps(open_task(data, forget).manifest()))


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100, mnist or fashion-mnist.")],
    to: Annotated[Path, typer.Option(help="The folder to put the files in.")],
    mirror: Annotated[Optional[str], typer.Option(help="Another address under which the files lie.")] = None,  # noqa: UP045
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
