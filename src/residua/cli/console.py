"""Output of the command line: results on standard output; notes, progress and errors on standard error."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from residua.cli.options import command_line
from residua.errors import LONGEST_SENTENCE, printable
from residua.files import write_atomically
from residua.text import duration

if TYPE_CHECKING:  # --help and verify do not wait for PyTorch
    import torch

    from residua.report.table import Table
    from residua.study.schedule import Step
    from residua.training.loop import Tick

# The exit code of a study some of whose cells failed.
SOME_FAILED = 1


class Screen(Console):
    """A console on which text from files cannot steer the terminal: control characters are printed escaped."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **how)

    def print_json(self, json: str | None = None, **how: Any) -> None:
        """JSON leaves the control characters above ASCII as they are unless it is told to escape them."""
        super().print_json(json, **{"ensure_ascii": True} | how)


# A table that goes to a file or a pipe is not cut at the usual 80 columns.
out = Screen(highlight=False, emoji=False, soft_wrap=True, markup=False, width=None if sys.stdout.isatty() else 140)
# Of the processes that torchrun started, the first speaks.
err = Screen(
    stderr=True, highlight=False, emoji=False, soft_wrap=True, markup=False, quiet=os.environ.get("RANK", "0") != "0"
)
# Prints a result on standard output.
echo = out.print


def complain(sentence: str) -> None:
    """Print an error as one line."""
    err.print(f"residua: {printable(' '.join(sentence.split()), LONGEST_SENTENCE)}")


def say(sentence: str) -> None:
    """Print a note on standard error."""
    err.print(printable(sentence, LONGEST_SENTENCE))


def echo_json(data: Any) -> None:
    """Print data as JSON on standard output."""
    out.print_json(json.dumps(data))


def show(table: Table) -> None:
    """Print a table on standard output; in a narrow terminal, with fewer columns."""
    table = table.fitting(out.width)
    rich = RichTable(
        title=Text(printable(table.title)), title_justify="left", title_style="bold", caption_justify="left"
    )
    for i, column in enumerate(table.columns):
        words = table.is_text(i)
        rich.add_column(Text(printable(column)), justify="left" if words else "right", no_wrap=not words)
    for row in table.rows:
        rich.add_row(*(Text(printable(cell)) for cell in row))
    out.print(rich)
    if table.note:
        out.print(table.note)


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


@contextlib.contextmanager
def live_line(description: str = "") -> Iterator[Callable[[str, float | None], None]]:
    """One line that is redrawn in a terminal; the function takes a description and the fraction that is done."""
    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        line = progress.add_task(description, total=None)

        def update(description: str, fraction: float | None) -> None:
            total = None if fraction is None else 1
            progress.update(line, description=printable(description), total=total, completed=fraction or 0)

        yield update


@contextlib.contextmanager
def work(stage: str = "", device: torch.device | None = None, steps: Sequence[str] = ()) -> Iterator[None]:
    """Progress of the stages that the body reports and of its trainings; where there is no terminal, one line each.

    Args:
        stage: First stage.
        device: Device of the trainings, which is said as the first of them begins.
        steps: Stages that are expected, as `model: measure`; then the time left is said once it can be told.
    """
    from residua.device import device_facts
    from residua.progress import listening
    from residua.training.loop import watching

    remaining = Remaining(steps)
    with live_line(stage) as update:

        def on_stage(what: str, fraction: float | None) -> None:
            nonlocal stage
            stage = what + remaining.begin(what)
            update(stage, fraction)
            if fraction is None and not err.is_terminal:
                say(stage)

        def on_step(tick: Tick) -> None:
            nonlocal device
            if device is not None:
                say(device_facts(device))
                device = None
            words = f"epoch {tick.epoch}/{tick.epochs}, loss {tick.loss:.3f}"
            fraction = ((tick.epoch - 1) * tick.steps + tick.step) / (tick.epochs * tick.steps)
            update(f"{stage}, {words}", fraction)
            if tick.epoch_done and not err.is_terminal:
                say(f"{stage}: {words}")

        with listening(on_stage), watching(on_step):
            yield


@dataclasses.dataclass
class Remaining:
    """The time left of an audit: what a measure took of one model is what it takes of the others."""

    ahead: Sequence[str]
    spent: dict[str, float] = dataclasses.field(default_factory=dict)
    now: tuple[str, float] | None = None

    def begin(self, stage: str) -> str:
        """The time left as this stage begins, in words; empty while nothing like the rest was done."""
        step, time = stage.partition(",")[0], monotonic()
        if self.now is not None and self.now[0] != step:
            measure = self.now[0].partition(": ")[2]
            self.spent[measure] = max(time - self.now[1], self.spent.get(measure, 0.0))
        if self.now is None or self.now[0] != step:
            self.now = step, time
        if step in self.ahead:
            self.ahead = self.ahead[self.ahead.index(step) + 1 :]
            left = [self.spent.get(each.partition(": ")[2]) for each in (step, *self.ahead)]
            known = sum(each for each in left if each is not None)
            words = time_left(known, left.count(None)) if known >= 1 else ""
            return f" ({words} left)" if words else ""
        return ""


@contextlib.contextmanager
def study_progress(device: torch.device | None = None) -> Iterator[dict[str, Any]]:
    """Progress of a study: cells done, running and last finished, and the time left.

    Gives the arguments by which a study reports: `command`, `tell` and `progress`. The device is said as work begins.

    Where there is no terminal, one line for each cell that was computed. An interruption says how to resume.
    """
    from residua.device import device_facts

    with live_line("looking") as update:
        before, last = -1, ""

        def progress(step: Step) -> None:
            nonlocal before, last, device
            if device is not None:
                say(device_facts(device))
                device = None
            words = time_left(step.left, step.unknown)
            left = f", {words} left" if words else ""
            running = f", now {', '.join(step.running[:2])}" if step.running else ""
            last = f", last {step.last} {step.seconds:.1f} s" if step.last else last
            update(
                f"{step.done}/{step.total} cells{left}{running}{last}",
                (step.done + step.failed) / step.total if step.total else None,
            )
            computed = step.done - step.reused
            if not err.is_terminal and step.last and computed > before >= 0:
                say(f"{step.done}/{step.total} {step.last}, {step.seconds:.1f} s{left}")
            before = computed

        try:
            yield {"command": command_line(), "tell": say, "progress": progress}
        except KeyboardInterrupt:
            say("interrupted; the same command resumes")
            raise


def time_left(seconds: float, unknown: int) -> str:
    """The time left in words: empty if it is unknown, "at least" if some cells are unlike all that were made so far."""
    return f"{'at least' if unknown else 'about'} {duration(seconds)}" if seconds > 0 else ""


def report_failures(failures: Mapping[str, str]) -> None:
    """Name every failure, and end with an exit code that says so."""
    if not failures:
        return
    say(f"{len(failures)} cells failed; the same command tries them again:")
    for name, why in failures.items():
        say(f"  {name}: {why}")
    raise typer.Exit(SOME_FAILED)
