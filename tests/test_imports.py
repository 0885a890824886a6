"""Who may import whom: imports point left along the corridor, and only the command line prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import residua

SOURCE = Path(residua.__file__).parent

# The rooms of the corridor from left to right; a file may import from its own room and from those left of it.
CORRIDOR = (
    {"errors", "files", "device"},
    {"split", "task", "datasets"},
    {"classifier", "networks", "adopt", "checkpoint", "strangers"},
    {"training", "streams", "losses", "recipes"},
    {
        "reading",
        "explanations",
        "curve",
        "memo",
        "outputs",
        "features",
        "saved",
        "critic",
        "information",
        "attack",
        "calibration",
    },
    {"unlearn", "measure"},
    {"trajectory", "tuning", "cheats"},
    {"record"},
    {"shadow", "budget"},
    {"compare"},
    {"report"},
    {"study"},
    {"engine"},
    {"audit"},
    {"cli"},
)
PLACE = {module: place for place, room in enumerate(CORRIDOR) for module in room}
NUMBERS_ONLY = {"errors", "files", "reading", "explanations", "curve", "record", "compare", "report"}
SIBLINGS = {"unlearn", "measure"}
OPTIONAL = {"torchvision", "timm", "transformers", "PIL", "pyarrow", "ray", "optuna"}


def imported(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and dotted name, as a list, of everything imported anywhere in a file of this package.

    `from residua.task import ForgetTask` counts as residua.task.ForgetTask: whether the last part
    is a module or a name in one makes no difference to the rooms.
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


def faults(path: str, source: str) -> list[str]:
    """What is wrong with the file at `path`, given relative to the package."""
    parts = path.removesuffix(".py").split("/")
    own, inner = parts[0], parts[-1] != "__init__"
    tree = ast.parse(source)
    found = []
    for line, name in imported(tree, ["residua", *parts[:-1]]):
        if name[0] != "residua":
            continue
        other = name[1] if len(name) > 1 else ""
        if other not in PLACE:
            found.append(f"{path}:{line} imports residua.{other}, which has no place in the corridor")
        elif PLACE[other] > PLACE[own]:
            found.append(f"{path}:{line} imports {other}, which lies to the right of {own}")
        elif own in SIBLINGS and other in SIBLINGS and (inner or other != own):
            found.append(f"{path}:{line} imports {'.'.join(name[1:])}: a method or measure knows no other")
        elif own in ("compare", "report") and other not in NUMBERS_ONLY:
            found.append(f"{path}:{line} imports {other}, but {own} sees records and numbers only")
    for node in run_at_import(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for _, name in imported(ast.Module([node], []), ["residua", *parts[:-1]]):
                if name[0] in OPTIONAL:
                    found.append(f"{path}:{node.lineno} needs {name[0]} to be imported at all")
    if own != "cli" and not path.startswith("datasets/embedded/make_"):
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


def test_every_file_has_a_place_in_the_corridor():
    assert len(FILES) > 30
    homeless = {file for file in FILES if file.removesuffix(".py").split("/")[0] not in PLACE}
    assert homeless == set(), "name their room in CORRIDOR"


@pytest.mark.parametrize("file", [file for file in FILES if file.removesuffix(".py").split("/")[0] in PLACE])
def test_imports_point_left(file):
    assert faults(file, (SOURCE / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        ("task.py", "from residua.training import descend", "to the right"),
        ("task.py", "import residua.training", "to the right"),
        ("task.py", "from residua import training", "to the right"),
        ("task.py", "from .training import descend", "to the right"),
        ("task.py", "from . import training", "to the right"),
        ("task.py", "def f():\n    from residua.cli import main", "to the right"),
        ("datasets/idx.py", "from ..networks import build", "to the right"),
        ("datasets/idx.py", "from .. import networks", "to the right"),
        ("errors.py", "if True:\n    import residua.task as t", "to the right"),
        ("record.py", "from residua.cli.console import say", "to the right"),
        ("outputs.py", "from residua.unlearn import METHODS", "to the right"),
        ("task.py", "from residua import Split", "no place"),
        ("task.py", "import residua", "no place"),
        ("task.py", "from residua.helpers import x", "no place"),
        ("unlearn/retrain.py", "from residua.unlearn.original import Original", "knows no other"),
        ("unlearn/retrain.py", "from residua.unlearn import original", "knows no other"),
        ("unlearn/retrain.py", "from .original import Original", "knows no other"),
        ("unlearn/retrain.py", "from . import original", "knows no other"),
        ("unlearn/retrain.py", "from residua.measure.accuracy import Accuracy", "knows no other"),
        ("unlearn/__init__.py", "from residua.measure import Accuracy", "knows no other"),
        ("measure/__init__.py", "from residua.unlearn.random import Random", "knows no other"),
        ("measure/accuracy.py", "from residua.measure import Measure", "knows no other"),
        ("report/table.py", "from residua.classifier import Classifier", "numbers only"),
        ("compare/idi.py", "from residua.measure import Accuracy", "numbers only"),
        ("networks/resnet.py", "import torchvision", "at all"),
        ("networks/resnet.py", "try:\n    from timm.models import create_model\nexcept ImportError: pass", "at all"),
        ("networks/resnet.py", "class A:\n    import transformers.models as m", "at all"),
        ("training.py", "print('epoch')", "prints"),
        ("training.py", "def f():\n    return [print(x) for x in y]", "prints"),
        ("training.py", "import sys\nsys.stdout.write('x')", "writes to sys.stdout"),
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
        ("task.py", "from residua.split import Split\nfrom residua.errors import InputError"),
        ("task.py", "from .split import Split\nimport numpy.typing\nfrom torch import nn"),
        ("datasets/idx.py", "from residua.datasets.arrays import arrays\nfrom ..task import Dataset"),
        ("unlearn/__init__.py", "from residua.unlearn.original import Original\nfrom .random import Random"),
        ("measure/accuracy.py", "from residua.outputs import logits"),
        ("report/table.py", "from residua.record import Record\nfrom residua.compare import idi"),
        ("networks/resnet.py", "def f():\n    import torchvision"),
        ("networks/resnet.py", "if TYPE_CHECKING:\n    import timm"),
        ("cli/demo.py", "print('done')\nfrom residua.training import watching"),
        ("datasets/embedded/make_fashion_sample.py", "print('done')"),
        ("training.py", "def show(pretty):\n    pretty.print('x')"),
    ],
)
def test_the_rule_lets_good_files_pass(path, source):
    assert faults(path, source) == []
