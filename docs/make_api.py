"""Writes docs/api/: a page for the public names and one for each room, from the package itself, whenever the site is built.

Docstrings are written as a person reads them, with Markdown's backticks; `as_rst` makes of them what autodoc reads.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import residua
from residua.training.settings import described

# Rooms, in the order of the corridor, with what the page is called.
ROOMS = {
    "data": "Data sets",
    "models": "Models",
    "training.recipes": "Recipes",
    "unlearn": "Methods",
    "measure": "Measures",
    "compare": "Comparisons",
    "study": "Studies",
}
FRONT = "The public names"


def write(folder: Path) -> None:
    """All pages; those that are as they were are left alone, so that a second build is quick."""
    folder.mkdir(exist_ok=True)
    pages = {"residua.rst": front()} | {
        f"{stem(room)}.rst": page(f"residua.{room}", title, names(f"residua.{room}")) for room, title in ROOMS.items()
    }
    for old in set(folder.glob("*.rst")) - {folder / name for name in pages}:
        old.unlink()
    for name, text in pages.items():
        place = folder / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def stem(room: str) -> str:
    """The name of a room's page."""
    return room.rpartition(".")[2]


def front() -> str:
    """`import residua as rs`: everything but the rooms, which have pages of their own."""
    own = [name for name in residua.__all__ if not isinstance(getattr(residua, name), ModuleType)]
    return page("residua", FRONT, own)


def names(room: str) -> list[str]:
    """The public names of a room that are not at the front already."""
    module = importlib.import_module(room)
    at_front = [getattr(residua, name) for name in residua.__all__]
    return [name for name in public(module) if not any(getattr(module, name) is each for each in at_front)]


def public(module: ModuleType) -> list[str]:
    own = getattr(module, "__all__", None)
    if own is not None:
        return list(own)
    return [name for name, thing in vars(module).items() if _defined_here(thing, module) and name[0] != "_"]


def _defined_here(thing: Any, module: ModuleType) -> bool:
    return (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__ == module.__name__


def page(module: str, title: str, members: list[str]) -> str:
    lines = [title, "=" * len(title), "", f".. automodule:: {module}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {module}", "", ".. autosummary::", ""]
    lines += [f"   {name}" for name in members] + [""]
    for name in members:
        lines += [*described_by(getattr(importlib.import_module(module), name), name), ""]
    return "\n".join(lines)


def described_by(thing: Any, name: str) -> list[str]:
    """The directive of a name; of values their place is enough, since tables of recipes fill pages."""
    if inspect.isclass(thing):
        return [f".. autoclass:: {name}", "   :members:"]
    return [f".. autofunction:: {name}"] if inspect.isroutine(thing) else [f".. autodata:: {name}", "   :no-value:"]


def as_rst(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as autodoc reads them: code in double backticks, indented lines as they stand, fields as a list."""
    if what == "data":  # autodoc would show what dict or tuple say about themselves
        kind = f"``{type(thing).__name__}``"
        lines[:] = [f"A {kind} of {len(thing)}." if hasattr(thing, "__len__") else f"A {kind}.", ""]
        return
    lines[:] = converted(listed(lines))
    if what == "class" and dataclasses.is_dataclass(thing):
        lines += fields(thing)


SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises", "Yields:": "Yields"}


def listed(lines: list[str]) -> list[str]:
    """Google's sections as lists: an item per line, with its indented continuation on the same line."""
    out: list[str] = []
    inside = False
    for line in lines:
        if line.strip() in SECTIONS and not line.startswith(" "):
            out += ["", f"{SECTIONS[line.strip()]}:", ""]
            inside = True
        elif inside and line.startswith("     "):
            out[-1] += f" {line.strip()}"
        elif inside and line.startswith("    "):
            name, colon, text = line.strip().partition(":")
            out.append(f"- `{name}`:{text}" if colon and " " not in name else f"- {line.strip()}")
        else:
            inside = inside and not line.strip()
            out += ["", line] if out and out[-1].startswith("- ") and line.strip() else [line]
    return out


def converted(lines: list[str]) -> list[str]:
    out: list[str] = []
    literal = False
    for line in lines:
        indented = line.startswith("  ") and bool(line.strip())
        if indented and not literal and (not out or not out[-1].strip()):
            out += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        out.append(line if literal else inline(line))
    return [*out, ""]


# Code and emphasis stay; elsewhere stars, bars, backslashes and trailing underscores are only characters.
KEPT = re.compile(r"(`[^`]+`|(?<![\w*])\*\w[\w ]*\*(?![\w*]))")


def inline(text: str) -> str:
    """One line of prose: code as code, and nothing that is not markup taken for it."""
    parts = KEPT.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"[*|\\]|(?<=\w)_(?!\w)", r"\\\g<0>", part)
        elif part.startswith("`"):
            parts[i] = f"`{part}`"
    return "".join(parts)


def fields(kind: Any) -> list[str]:
    """The fields of a dataclass that say something about themselves, with their defaults."""
    try:
        own = {name: each.setting.help for name, each in described(kind).items() if each.setting.help}
    except TypeError:
        return []
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    out = []
    for name, text in own.items():
        default = defaults[name]
        said = "" if default is dataclasses.MISSING or default is None else f" Default: ``{default!r}``."
        out.append(f"- ``{name}``: {inline(text)}{said}")
    return [*out, ""] if out else []


if __name__ == "__main__":
    write(Path(__file__).resolve().parent / "api")
