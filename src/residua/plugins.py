"""Plug-ins: methods and measures from elsewhere, by entry points of installed packages or from plain files.

A package declares its own in the groups `residua.unlearners` and `residua.measures`. A plain file needs no
packaging: every frozen dataclass in it that has a label and a `__call__` counts, as a method if it is called with
`original`, as a measure if it is called with `model`. Files are named in the environment (`RESIDUA_PLUGINS`), so
that worker processes find them too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from residua.errors import InputError, first_line

ENVIRONMENT = "RESIDUA_PLUGINS"
PREFIX = "residua_plugin_"
# By group: the first argument of a call, and the noun for messages.
GROUPS = {"residua.unlearners": ("original", "method"), "residua.measures": ("model", "measure")}


def files() -> list[Path]:
    """The plain files that are in use."""
    return [Path(word) for word in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if word]


@contextlib.contextmanager
def using(paths: Sequence[str | Path]) -> Iterator[None]:
    """Use these files, too, in the body."""
    before = os.environ.get(ENVIRONMENT)
    add(paths)
    try:
        yield
    finally:
        os.environ.pop(ENVIRONMENT, None)
        if before is not None:
            os.environ[ENVIRONMENT] = before


def add(paths: Sequence[str | Path]) -> None:
    """Use these files from now on, here and in worker processes."""
    every = dict.fromkeys([*map(str, files()), *(str(checked(path)) for path in paths)])
    if every:
        os.environ[ENVIRONMENT] = os.pathsep.join(every)


def checked(path: str | Path) -> Path:
    """The absolute path of a plug-in file, which must be a Python file that exists."""
    place = Path(path).expanduser().absolute()
    try:
        there = place.suffix == ".py" and place.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there or os.pathsep in str(place):
        raise InputError(f"--plugin {path} is not a Python file; give the path of a .py file that exists")
    return place


def discover(group: str, taken: Callable[[str], bool], fit: Callable[[Any], bool]) -> dict[str, Any]:
    """The plug-ins of a group, from packages and plain files, by label.

    `taken` says whether a label is in use, ignoring case; `fit` whether something can be used at all.
    """
    found: dict[str, Any] = {}
    for origin, load in (*_of_packages(group), *_of_files(group)):
        kind = GROUPS[group][1]
        try:
            thing = load()
            label = _label(thing)
            usable = label is not None and fit(thing)
        except InputError:
            raise
        except Exception as error:  # other people's code may fail in any way
            raise InputError(f"{origin} cannot be used ({first_line(error)}); repair or remove the {kind}") from error
        if label is None or not usable:
            raise InputError(
                f"{origin} names no {kind}; make it a frozen dataclass with a label, a __call__, and a default for "
                "every field"
            )
        if taken(label) or label.lower() in map(str.lower, found):
            raise InputError(f"{origin} brings a {kind} named {label}, which is taken; rename its label")
        found[label] = thing
        if group == "residua.measures":
            _modules[label] = sys.modules.get(getattr(thing, "__module__", ""))
    return found


# The modules of plug-ins by label: their explanations are found here.
_modules: dict[str, ModuleType | None] = {}


def explanations() -> dict[str, Sequence[Any]]:
    """The `EXPLANATIONS` of plug-in modules, by label; plain files only while they are in use."""
    in_use = {_module_name(path) for path in files()}
    return {
        label: getattr(module, "EXPLANATIONS", ())
        for label, module in _modules.items()
        if module is None or not module.__name__.startswith(PREFIX) or module.__name__ in in_use
    }


def named(words: str) -> Any:
    """The class (or anything else) that `module:Class` or `path/to/file.py:Class` names."""
    place, _, name = words.rpartition(":")
    try:
        module = load(checked(place)) if place.endswith(".py") else importlib.import_module(place)
        return getattr(module, name)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{words} cannot be used ({first_line(error)}); write module:Class or path/to/file.py:Class"
        ) from error


def load(path: Path) -> ModuleType:
    """A plain file as a module, run once."""
    add([path])
    try:
        return importlib.import_module(_module_name(path))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the plug-in {path} cannot be run ({first_line(error)}); repair it") from error


def _of_packages(group: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        yield f"the entry point {entry.name} = {entry.value} in {group}", entry.load


def _of_files(group: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    for path in files():
        module = load(path)
        for name, thing in list(vars(module).items()):
            if _in_file(thing, module) and _called_with(thing) == GROUPS[group][0]:
                yield f"the plug-in {path}:{name}", lambda thing=thing: thing  # type: ignore[misc]
        if not any(_in_file(thing, module) for thing in vars(module).values()):
            raise InputError(
                f"the plug-in {path} holds neither a method nor a measure; define a frozen dataclass with a label and "
                "__call__(self, original, task) or __call__(self, model, task)"
            )


def _in_file(thing: Any, module: ModuleType) -> bool:
    own = isinstance(thing, type) and thing.__module__ == module.__name__
    return own and dataclasses.is_dataclass(thing) and _label(thing) is not None and _called_with(thing) != ""


def _called_with(kind: Any) -> str:
    """The name of the first argument of a call; empty if it cannot be called."""
    if "__call__" not in vars(kind) and not any("__call__" in vars(base) for base in kind.__mro__[:-1]):
        return ""
    names = list(inspect.signature(kind.__call__).parameters)
    return names[1] if len(names) > 2 else ""


def _label(thing: Any) -> str | None:
    """The label, which may depend on the fields."""
    try:
        label = getattr(thing, "label", None)
        label = thing().label if isinstance(thing, type) and isinstance(label, property) else label
    except Exception:
        return None
    return label if isinstance(label, str) and label else None


def _module_name(path: Path) -> str:
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return f"{PREFIX}{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{digest}"


class _Files(MetaPathFinder):
    """Finds plug-in files by the names under which their classes are pickled."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX):
            return None
        place = next((each for each in files() if _module_name(each) == name), None)
        return importlib.util.spec_from_file_location(name, place) if place else None


sys.meta_path.append(_Files())
