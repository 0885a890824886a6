"""Errors that the caller can put right: one sentence each, and an exit code."""

from __future__ import annotations

import unicodedata


class InputError(ValueError):
    """An input that cannot be used.

    The message is one sentence that names the input, what was expected and what to do. What it quotes of a file steers
    no terminal: control characters are escaped, and it is one line. The command line prints it without a traceback and
    exits with `exit_code`.
    """

    exit_code = 3

    def __str__(self) -> str:
        return " ".join(printable(super().__str__()).split("\n"))


class Diverged(InputError):
    """The loss is no longer a finite number, so the training settings were bad input."""


def out_of_memory(error: BaseException) -> bool:
    """True if memory ran out, a GPU's or PyTorch's on the CPU."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def first_line(error: BaseException) -> str:
    """The first line of another library's error, short enough for a sentence."""
    lines = str(error).splitlines()
    return printable(lines[0], 120) if lines else type(error).__name__


# Longer than any sentence of ours; what goes beyond it came from a file.
LONGEST_SENTENCE = 1200


def printable(text: str, most: int | None = None) -> str:
    """`text` with control characters escaped, since what comes from a file must not steer a terminal.

    Line breaks and tabs stay. Escapes are JSON's, so that JSON remains JSON. With `most`, the middle of a longer text
    is left out.
    """
    if most is not None and len(text) > most:
        half = (most - 5) // 2
        text = f"{text[: most - 5 - half]} ... {text[-half:]}"
    if text.isascii() and text.isprintable():
        return text
    # Control characters, those that reorder or hide text, and what no encoding can print.
    harmless = {c for c in set(text) if c in "\n\t" or c.isprintable() or unicodedata.category(c) == "Zs"}
    return "".join(c if c in harmless else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
