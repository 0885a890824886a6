"""How the command line looks: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from residua.errors import LONGEST_SENTENCE, printable

if TYPE_CHECKING:  # what only looks things up does not wait for PyTorch
    from residua.report import Table
    from residua.training.loop import Tick


class Screen(Console):
    """A console on which text from files cannot steer the terminal: control characters are printed escaped."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **how)

    def print_json(self, json: str | None = None, **how: Any) -> None:
        """JSON leaves the control characters above ASCII as they are unless it is told to escape them."""
        super().print_json(json, **{"ensure_ascii": True} | how)


# A table that goes to a file or a pipe is not cut at the usual 80 columns.
out = Screen(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
err = Screen(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def complain(sentence: str) -> None:
    err.print(f"residua: {printable(' '.join(sentence.split()), LONGEST_SENTENCE)}", markup=False)


def say(sentence: str) -> None:
    err.print(printable(sentence, LONGEST_SENTENCE), markup=False)


def show(table: Table) -> None:
    rich = RichTable(
        title=Text(printable(table.title)), title_justify="left", title_style="bold", caption_justify="left"
    )
    for i, column in enumerate(table.columns):
        is_text = i == 0 or any(row[i][:1].isalpha() for row in table.rows)
        rich.add_column(Text(printable(column)), justify="left" if is_text else "right")
    for row in table.rows:
        rich.add_row(*(Text(printable(cell)) for cell in row))
    out.print(rich)
    if table.note:
        out.print(table.note, markup=False)


@contextlib.contextmanager
def training_bar(what: str) -> Iterator[None]:
    """A bar over every `descend` in the body, with epoch and loss; plain lines if there is no terminal."""
    from residua.training.loop import watching

    if not err.is_terminal:
        with watching(lambda tick: _line(what, tick)):
            yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task(what)

        def update(tick: Tick) -> None:
            progress.update(
                bar,
                total=tick.epochs * tick.steps,
                completed=(tick.epoch - 1) * tick.steps + tick.step,
                description=f"{what}  epoch {tick.epoch}/{tick.epochs}  loss {tick.loss:.3f}",
            )

        with watching(update):
            yield


@contextlib.contextmanager
def stages() -> Iterator[None]:
    """What is told of the work in the body, model by model: a line for each stage or, in a terminal, one live bar.

    A training on the way, such as a proxy's, is followed as `training_bar` does.
    """
    from residua.progress import listening
    from residua.training.loop import watching

    stage = [""]
    if not err.is_terminal:

        def told(what: str, share: float | None) -> None:
            if share is None:
                stage[0] = what
                say(what)

        with listening(told), watching(lambda tick: _line(stage[0], tick)):
            yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show_share(what: str, share: float | None) -> None:
            stage[0] = what
            progress.update(
                bar, description=printable(what), total=None if share is None else 1, completed=share or 0
            )

        def show_epoch(tick: Tick) -> None:
            share = ((tick.epoch - 1) * tick.steps + tick.step) / (tick.epochs * tick.steps)
            progress.update(
                bar,
                description=f"{printable(stage[0])}, epoch {tick.epoch}/{tick.epochs}, loss {tick.loss:.3f}",
                total=1,
                completed=share,
            )

        with listening(show_share), watching(show_epoch):
            yield


def _line(what: str, tick: Tick) -> None:
    if tick.epoch_done:
        say(f"{what}: epoch {tick.epoch}/{tick.epochs}, loss {tick.loss:.3f}")


@contextlib.contextmanager
def download_bar() -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        yield progress
