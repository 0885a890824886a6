"""Writes docs/commands.md: every command with its options, their defaults and their help, as the program has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from residua.cli import PANELS, loaded

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Commands

`python docs/make_commands.py` writes this page from the program; a test compares the two. `residua COMMAND --help` shows the
same in a terminal.

Exit codes: 0 done, 3 bad input (one sentence on standard error), 70 an internal error (with its traceback), 130
interrupted. `audit` has 0 for forgotten, 1 for not forgotten (or ruined), 2 for undetermined; `verify` has 1 for a report
that does not follow; `study` and `controls` have 1 if a part of the run failed.
"""
# Commands whose options depend on what is named, with what the page says about it.
MORE = {
    "unlearn": "Each method has options of its own, with the defaults of its recipe: `residua unlearn COLA --help`."
}


def page() -> str:
    parts = [HEAD]
    for panel, names in PANELS.items():
        parts.append(f"\n## {panel}\n")
        for name in names:
            command = loaded(name)
            inner = getattr(command, "commands", {})
            for part, each in inner.items():
                parts.append(section(f"{name} {part}", each))
            if not inner:
                parts.append(section(name, command))
    return "\n".join(parts).rstrip() + "\n"


def section(name: str, command: Any) -> str:
    """One command: usage, what it does, and a table of its options."""
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and not p.hidden]
    usage = " ".join(["residua", name, *(argument(p) for p in arguments)])
    needed = "".join(f" {p.opts[0]} {metavar(p)}" for p in options if p.required)
    lines = [f"### residua {name}\n", f"`{usage}{needed}`\n", plain(command.help or ""), ""]
    if name in MORE:
        lines += [MORE[name], ""]
    if options:
        lines += ["| option | default | |", "|---|---|---|"]
        lines += [row(p) for p in options]
        lines.append("")
    return "\n".join(lines)


def row(parameter: Any) -> str:
    cells = (f"`{spelled(parameter)}`", default(parameter), plain(parameter.help or ""))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def argument(parameter: Any) -> str:
    word = parameter.metavar or parameter.name.upper()
    if word.startswith("["):
        return str(word)
    word += "..." if parameter.nargs == -1 and not word.endswith("...") else ""
    return word if parameter.required else f"[{word}]"


def spelled(parameter: Any) -> str:
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {metavar(parameter)}"


def metavar(parameter: Any) -> str:
    """The word that stands for the value: the declared word, the choices, or the kind of value."""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    while any(type(None) is inner for inner in get_args(kind)) or get_origin(kind) is list:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return {Path: "PATH", int: "INTEGER", float: "NUMBER"}.get(kind, "TEXT")


def default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    if value is None or value is False or callable(value) or value in ((), []):
        return ""
    return f"`{value}`"


def plain(text: str) -> str:
    """Help as Markdown on one line per paragraph."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    return "\n\n".join(paragraphs)


if __name__ == "__main__":
    (ROOT / "docs/commands.md").write_text(page(), encoding="utf-8")
