"""Allowed imports: imports point to lower layers, and only the command line prints."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import residua

SOURCE = Path(residua.__file__).parent

# The lowest layer, then the packages from low to high: a file may import from its own package and from lower ones.
LOWEST = (
    "errors",
    "device",
    "parallel",
    "worker",
    "limits",
    "confined",
    "files",
    "npz",
    "text",
    "progress",
    "readings",
    "record",
    "roles",
    "room",
    "plugins",
    "explanations",
)
PACKAGES = (
    "data",
    "models",
    "training",
    "unlearn",
    "measure",
    "controls",
    "compare",
    "report",
    "audits",
    "study",
    "cli",
)
PLACE = dict.fromkeys(LOWEST, -1) | {package: place for place, package in enumerate(PACKAGES)}
NUMBERS_ONLY = set(LOWEST) - {"device", "parallel"} | {"compare", "report"}
SIBLINGS = {"unlearn", "measure"}
OPTIONAL = {"torchvision", "timm", "transformers", "PIL", "pyarrow", "ray", "optuna"}


def imported(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and dotted name, as a list, of everything imported anywhere in a file of this package.

    `from residua.task import ForgetTask` counts as residua.task.ForgetTask: whether the last part
    is a module or a name in one makes no difference to the layers.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            stem = above + (node.module.split(".") if node.module else [])
            for name in node.names:
                yield node.lineno, [*stem, name.name]


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the file is imported: not the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from run_at_import(node)


def _may_know(parts: list[str], name: list[str]) -> bool:
    """True if a file of `unlearn` or `measure` may import this name of them.

    `__init__` imports its whole package. Every module may import the package's helpers, which begin with an
    underscore, and `measure/information`, which is one instrument in several files.
    """
    if name[1] != parts[0]:
        return False
    inside = name[2] if len(name) > 2 else ""
    return parts[-1] == "__init__" or inside.startswith("_") or inside == "information"


def faults(path: str, source: str) -> list[str]:
    """Faults of the file at `path`, given relative to the package."""
    parts = path.removesuffix(".py").split("/")
    own = parts[0]
    tree = ast.parse(source)
    found = []
    for line, name in imported(tree, ["residua", *parts[:-1]]):
        if name[0] != "residua":
            continue
        other = name[1] if len(name) > 1 else ""
        if other not in PLACE:
            found.append(f"{path}:{line} imports residua.{other}, which has no place among the layers")
        elif PLACE[other] > PLACE[own]:
            found.append(f"{path}:{line} imports {other}, a layer above {own}")
        elif own in SIBLINGS and other in SIBLINGS and not _may_know(parts, name):
            found.append(f"{path}:{line} imports {'.'.join(name[1:])}: a method or measure knows no other")
        elif own in ("compare", "report") and other not in NUMBERS_ONLY:
            found.append(f"{path}:{line} imports {other}, but {own} sees records and numbers only")
    for node in run_at_import(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for _, name in imported(ast.Module([node], []), ["residua", *parts[:-1]]):
                if name[0] in OPTIONAL:
                    found.append(f"{path}:{node.lineno} needs {name[0]} to be imported at all")
    if own != "cli":
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"{path}:{node.lineno} prints")
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
                found.append(f"{path}:{node.lineno} writes to {ast.unparse(node)}")
    return found


FILES = sorted(
    path.relative_to(SOURCE).as_posix()
    for path in SOURCE.rglob("*.py")
    if path.relative_to(SOURCE).as_posix() not in ("__init__.py", "__main__.py")
)


def test_the_list_of_packages_is_the_list_of_directories():
    assert len(FILES) > 30
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert folders == set(PACKAGES)
    assert files == set(LOWEST)


def exported(package: Path) -> dict[str, object]:
    """Names in a package's own `__all__`."""
    module = importlib.import_module(".".join(("residua", *package.relative_to(SOURCE).parts)))
    return {name: getattr(module, name) for name in getattr(module, "__all__", ())}


@pytest.mark.parametrize("package", sorted(path.parent for path in SOURCE.rglob("__init__.py")), ids=str)
def test_no_module_has_the_name_of_a_function_that_its_package_exports(package):
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    functions = {name for name, value in exported(package).items() if isinstance(value, types.FunctionType)}
    assert modules & functions == set()


def test_comparing_and_reporting_do_not_need_torch():
    code = "import residua.compare, residua.report, residua.record, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("file", FILES)
def test_imports_point_to_lower_layers(file):
    assert faults(file, (SOURCE / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("data/task.py", "from residua.training.loop import descend", "a layer above"),
        ("data/task.py", "import residua.training", "a layer above"),
        ("data/task.py", "from residua import training", "a layer above"),
        ("data/task.py", "from ..training import descend", "a layer above"),
        ("data/task.py", "from .. import training", "a layer above"),
        ("data/task.py", "def f():\n    from residua.cli import main", "a layer above"),
        ("data/idx.py", "from ..models import build", "a layer above"),
        ("data/idx.py", "from .. import models", "a layer above"),
        ("errors.py", "if True:\n    import residua.data as t", "a layer above"),
        ("record.py", "from residua.cli.console import say", "a layer above"),
        ("unlearn/cola.py", "from residua.compare import idi", "a layer above"),
        ("data/task.py", "from residua import Split", "no place"),
        ("data/task.py", "import residua", "no place"),
        ("data/task.py", "from residua.helpers import x", "no place"),
        ("unlearn/cola.py", "from residua.unlearn.anchors import Original", "knows no other"),
        ("unlearn/cola.py", "from residua.unlearn import anchors", "knows no other"),
        ("unlearn/cola.py", "from .anchors import Original", "knows no other"),
        ("unlearn/cola.py", "from . import anchors", "knows no other"),
        ("unlearn/cola.py", "from residua.measure.accuracy import Accuracy", "a layer above"),
        ("unlearn/__init__.py", "from residua.measure import Accuracy", "a layer above"),
        ("measure/__init__.py", "from residua.unlearn.anchors import Random", "knows no other"),
        ("measure/information/curve.py", "from residua.measure.probe import Probe", "knows no other"),
        ("measure/accuracy.py", "from residua.measure import Measure", "knows no other"),
        ("report/table.py", "from residua.models.classifier import Classifier", "numbers only"),
        ("compare/information.py", "from residua.measure import Accuracy", "numbers only"),
        ("models/networks.py", "import torchvision", "at all"),
        ("models/networks.py", "try:\n    from timm.models import create_model\nexcept ImportError: pass", "at all"),
        ("models/networks.py", "class A:\n    import transformers.models as m", "at all"),
        ("training/loop.py", "print('epoch')", "prints"),
        ("training/loop.py", "def f():\n    return [print(x) for x in y]", "prints"),
        ("training/loop.py", "import sys\nsys.stdout.write('x')", "writes to sys.stdout"),
    ],
)  # fmt: skip
def test_the_rule_notices_planted_faults(path, source, fault):
    found = faults(path, source)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:")
    assert fault in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("data/task.py", "from residua.data.split import Split\nfrom residua.errors import InputError"),
        ("data/task.py", "from .split import Split\nimport numpy.typing\nfrom torch import nn"),
        ("data/idx.py", "from residua.data.from_arrays import arrays\nfrom .task import Dataset"),
        ("unlearn/__init__.py", "from residua.unlearn.anchors import Original\nfrom .random import Random"),
        ("measure/accuracy.py", "from residua.measure._outputs import logits"),
        ("measure/probe.py", "from residua.measure.information.coordinates import canonical"),
        ("report/table.py", "from residua.record import Record\nfrom residua.compare import idi"),
        ("models/networks.py", "def f():\n    import torchvision"),
        ("models/networks.py", "if TYPE_CHECKING:\n    import timm"),
        ("cli/demo.py", "print('done')\nfrom residua.training.loop import watching"),
        ("training/loop.py", "def show(pretty):\n    pretty.print('x')"),
    ],
)
def test_the_rule_lets_good_files_pass(path, source):
    assert faults(path, source) == []
