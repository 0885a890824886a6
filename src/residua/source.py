"""Source: what a file of the package declares, read from its text and not run.

Files of methods and measures import PyTorch. Whoever only wants their labels, docstrings, fields and explanations
reads them here, in milliseconds. Understood are literals, their sums, names of constants, defaults of other
dataclasses' fields, and calls of the few classes that describe things; a test compares every method and measure with what importing its file gives.
"""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
# Their names are imported and called: they need nothing but the standard library.
PLAIN = ("residua.explaining", "residua.training.settings")


class Source:
    """One file: its docstring, its classes, its constants, and where its other names come from."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.path = path
        self.doc = ast.get_docstring(tree) or ""
        self.nodes: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        for node in tree.body:
            self._enter(node)

    def _enter(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            self.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                self.imported[name.asname or name.name] = (node.module, name.name)
        elif isinstance(node, ast.Assign):
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            self.nodes[node.target.id] = node.value

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.nodes[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, item in zip(target.elts, value.elts, strict=True):
                self._assign(each, item)

    def home(self, name: str) -> Source:
        """The file of the package that defines this class."""
        if name in self.classes:
            return self
        module, _ = self.imported[name]
        return source(ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py"))

    def attributes(self, name: str) -> dict[str, ast.expr]:
        """The plain attributes of a class of this file, which are not its fields."""
        body = [node for node in self.classes[name].body if isinstance(node, ast.Assign)]
        return {node.targets[0].id: node.value for node in body if isinstance(node.targets[0], ast.Name)}

    def fields(self, name: str) -> dict[str, ast.AnnAssign]:
        """The fields of a dataclass of this file."""
        body = [node for node in self.classes[name].body if isinstance(node, ast.AnnAssign)]
        return {node.target.id: node for node in body if isinstance(node.target, ast.Name)}

    def constant(self, name: str) -> Any:
        """The value of a constant of this file; KeyError if there is none."""
        return self.value(self.nodes[name])

    def value(self, node: ast.expr) -> Any:
        """The value of an expression; ValueError if it is more than a description."""
        if isinstance(node, ast.Tuple | ast.List):
            items = [self.value(item) for item in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.value(node.left) + self.value(node.right)
        if isinstance(node, ast.Name):
            return self.constant(node.id) if node.id in self.nodes else self._plain(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._default(node.value.id, node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
            return self._plain(node.func.id)(*map(self.value, node.args), **given)
        return ast.literal_eval(node)

    def _default(self, name: str, field: str) -> Any:
        """`Fitting.steps`: the default of a field of a dataclass of the package."""
        if name not in self.classes and not self.imported.get(name, ("",))[0].startswith("residua."):
            raise ValueError(f"{self.path}: {name}.{field} is not a description")
        home = self.home(name)
        default = home.fields(name)[field].value
        if default is None:
            raise ValueError(f"{self.path}: {name}.{field} has no default")
        return home.value(default)

    def _plain(self, name: str) -> Any:
        module, inside = self.imported.get(name, ("", ""))
        if module not in PLAIN:
            raise ValueError(f"{self.path}: {name} is not a description")
        return getattr(importlib.import_module(module), inside)

    def notes(self, node: ast.expr) -> list[Any]:
        """The notes of `Annotated[type, note]`, or of a name for one."""
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
            inner = node.slice
            return [self.value(note) for note in inner.elts[1:]] if isinstance(inner, ast.Tuple) else []
        if isinstance(node, ast.Name) and self.imported.get(node.id, ("",))[0] in PLAIN:
            return list(getattr(self._plain(node.id), "__metadata__", ()))
        return []


@functools.cache
def source(path: Path) -> Source:
    return Source(path)


def docstring(path: Path, function: str) -> str:
    """The docstring of a function of this file."""
    return ast.get_docstring(source(path).functions[function]) or ""
