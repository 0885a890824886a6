"""What there is to list and explain: methods and measures, ours read from their source and not imported.

Those of other packages and of plain files are imported, and PyTorch with them if they need it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from residua import plugins
from residua.compare.explanations import measure_files
from residua.errors import InputError
from residua.source import ROOT, Source, source
from residua.training.settings import Setting, described


@dataclasses.dataclass(frozen=True)
class Declared:
    """A method or a measure: its label and class, one sentence, its docstring, and its fields."""

    label: str
    kind: str
    about: str
    text: str
    settings: dict[str, Any]
    help: dict[str, str]


def methods() -> list[Declared]:
    """Every method, in the order of `METHODS`, then those of plug-ins."""
    room = source(ROOT / "unlearn" / "__init__.py")
    calls: list[ast.Call] = room.nodes["METHODS"].elts  # type: ignore[attr-defined]
    ours = []
    for call in calls:
        name = ast.unparse(call.func)
        given = {word.arg: room.value(word.value) for word in call.keywords if word.arg}
        ours.append(_read(room.home(name), name, given))
    if not _plugged("residua.unlearners"):
        return ours
    from residua.unlearn import methods as every

    return ours + [of_object(method) for method in list(every().values())[len(ours) :]]


def measures() -> list[Declared]:
    """Every measure, in the order of `MEASURES`, then those of plug-ins."""
    ours = [_read(file, name, {}) for name, file in measure_files().items()]
    if not _plugged("residua.measures"):
        return ours
    from residua.measure import measures as every

    return ours + [of_object(kind()) for kind in list(every().values())[len(ours) :]]


def method(label: str) -> Declared | None:
    """The method of this label, ignoring case; EU and CF for any k."""
    for each in methods():
        if each.label.lower() == label.lower():
            return each
    stem, _, k = label.lower().rpartition("-")
    if stem in ("eu", "cf") and k.isdecimal() and int(k):
        five = next(each for each in methods() if each.label.lower() == f"{stem}-5")
        return dataclasses.replace(
            five, label=f"{stem.upper()}-{int(k)}", settings=five.settings | {"k": int(k)}
        )
    if ":" in label:
        from residua.unlearn import find

        return of_object(find(label))
    return None


def measure(label: str) -> Declared:
    """The measure of this label."""
    known = {each.label: each for each in measures()}
    if label not in known:
        raise InputError(f"there is no measure {label!r}; choose one of {', '.join(known)}")
    return known[label]


def of_object(thing: Any) -> Declared:
    """The same of a method or measure that is there."""
    kind: Any = type(thing)
    module = sys.modules[kind.__module__]
    notes = {name: field.setting.help for name, field in described(kind).items()}
    text = inspect.cleandoc(kind.__doc__ or "")
    return Declared(
        label=thing.label,
        kind=kind.__name__,
        about=_about(inspect.cleandoc(module.__doc__ or ""), text, thing.label),
        text=text,
        settings=dataclasses.asdict(thing),
        help=notes,
    )


def _read(file: Source, name: str, given: Mapping[str, Any]) -> Declared:
    settings, notes = {}, {}
    for field, node in file.fields(name).items():
        settings[field] = given[field] if field in given else _default(file, node.value)
        note = next((n for n in file.notes(node.annotation) if isinstance(n, Setting)), Setting())
        notes[field] = note.help
    label, text = _label(file, name, settings), ast.get_docstring(file.classes[name]) or ""
    return Declared(
        label=label,
        kind=name,
        about=_about(file.doc, text, label),
        text=text,
        settings=settings,
        help=notes,
    )


def _default(file: Source, node: ast.expr | None) -> Any:
    """A field's default; that of `field(default_factory=Kind)` is the fields of that kind."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "field":
        kind = next(ast.unparse(word.value) for word in node.keywords if word.arg == "default_factory")
        home = file.home(kind)
        return {name: _default(home, each.value) for name, each in home.fields(kind).items()}
    if node is None:
        raise ValueError(f"{file.path}: a field has no default")
    return file.value(node)


def _label(file: Source, name: str, settings: Mapping[str, Any]) -> str:
    """A constant, or a property that returns an f-string of fields: EU-{self.k}."""
    attributes = file.attributes(name)
    if "label" in attributes:
        return str(file.value(attributes["label"]))
    functions = [node for node in file.classes[name].body if isinstance(node, ast.FunctionDef)]
    returned = next(node for node in functions if node.name == "label").body[-1]
    parts: list[Any] = returned.value.values  # type: ignore[attr-defined]
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else str(settings[part.value.attr])
        for part in parts
    )


def _about(of_file: str, of_class: str, label: str) -> str:
    """The sentence of the file or, where that speaks of several, the first one of the class; without the label."""
    line = " ".join(of_file.split("\n\n")[0].split())
    if not line or " and " in line.partition(":")[0]:
        line = " ".join(of_class.split()).partition(". ")[0].rstrip(".") + "."
    return re.sub(rf"^({re.escape(label)}|[A-Z]{{2}}-k): ", "", line)


def _plugged(group: str) -> bool:
    return bool(plugins.files() or entry_points(group=group))
