"""No function grows beyond what a reader can hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src/residua"
FUNCTION = 60


def declares_options(function: ast.FunctionDef) -> bool:
    """True if the signature is a command's list of options: it grows with them, and is not read as code."""
    return any(isinstance(node, ast.Name) and node.id == "Annotated" for node in ast.walk(function.args))


def lengths(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every function with its lines, from `def` to its end; a command's are counted from its docstring on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            start = node.body[0].lineno if declares_options(node) else node.lineno
            yield node.name, (node.end_lineno or start) - start + 1


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_fit(path):
    text = path.read_text(encoding="utf-8")
    assert [(name, lines) for name, lines in lengths(ast.parse(text)) if lines > FUNCTION] == []


def test_a_long_function_is_found_and_the_options_of_a_command_are_not_counted():
    options = "".join(f"    a{i}: Annotated[int, typer.Option()] = 0,\n" for i in range(70))
    command = f"def command(\n{options}) -> None:\n    pass\n"
    plain = f"def plain() -> None:\n{'    pass' + chr(10)}" + "    pass\n" * 60
    assert dict(lengths(ast.parse(command + plain))) == {"command": 1, "plain": 62}
