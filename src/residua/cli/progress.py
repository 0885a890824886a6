"""How a study is followed: a live line in a terminal, plain lines in a log, and the failures at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from residua.cli.console import err, say
from residua.study.running import Progress, Step
from residua.texts import duration

# The exit code of a study some of whose cells failed.
SOME_FAILED = 1


@contextlib.contextmanager
def following() -> Iterator[Progress]:
    """A bar with done, running, time left and what was finished last; where there is no terminal, a line for each cell that was computed.

    Whoever interrupts it is told how to go on.
    """
    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        bar = shown.add_task("looking")
        before = [-1]
        last = [""]

        def progress(step: Step) -> None:
            words = left_in_words(step.left, step.unknown)
            left = f", {words} left" if words else ""
            running = f", now {', '.join(step.running[:2])}" if step.running else ""
            last[0] = f", last {step.last} {step.seconds:.1f} s" if step.last else last[0]
            shown.update(
                bar,
                total=step.total,
                completed=step.done + step.failed,
                description=f"{step.done}/{step.total} cells{left}{running}{last[0]}",
            )
            computed = step.done - step.reused
            if not err.is_terminal and step.last and computed > before[0] >= 0:
                say(f"{step.done}/{step.total} {step.last}, {step.seconds:.1f} s{left}")
            before[0] = computed

        try:
            yield progress
        except KeyboardInterrupt:
            say("interrupted; the same command resumes")
            raise


def left_in_words(seconds: float, unknown: int) -> str:
    """Nothing where nothing is known, and "at least" where some cells are unlike all that were made so far."""
    return f"{'at least' if unknown else 'about'} {duration(seconds)}" if seconds > 0 else ""


def report_failures(failures: Mapping[str, str]) -> None:
    """Name every failure, and end with an exit code that says so."""
    if not failures:
        return
    say(f"{len(failures)} cells failed; the same command tries them again:")
    for name, why in failures.items():
        say(f"  {name}: {why}")
    raise typer.Exit(SOME_FAILED)
