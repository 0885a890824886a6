"""What can go wrong by the caller's hand: one sentence each, and an exit code."""

from __future__ import annotations


class InputError(ValueError):
    """An input that cannot be used.

    The message is one sentence that names the input, what was expected and what to do.
    The command line prints it without a traceback and exits with `exit_code`.
    """

    exit_code = 3


class Diverged(InputError):
    """The loss stopped being a finite number, so the settings of the training were bad input."""


def first_line(error: BaseException) -> str:
    """What a stranger's error says, short enough for a sentence."""
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
