"""Sizes: functions that a reader can hold, few lines of imports, and methods that share no code but their base."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src/residua"
FUNCTION = 60
RUN = 6
IMPORTS = 0.075


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


def test_imports_are_few_lines():
    lines = imports = 0
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines += text.count("\n")
        imports += sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
        )
    assert imports <= IMPORTS * lines, f"{imports} of {lines} lines"


def code(text: str) -> list[str]:
    """The lines of code, stripped: without imports, comments, docstrings and lines of nothing but brackets."""
    tree, left_out = ast.parse(text), set[int]()
    for node in ast.walk(tree):
        prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if prose or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return [line for number, line in lines if number not in left_out and re.search(r"^[^#]*\w", line)]


def shared_runs(texts: Mapping[str, str]) -> list[str]:
    """The runs of RUN lines that stand in two places, with these places."""
    places = defaultdict(list)
    for name, text in texts.items():
        lines = code(text)
        for start in range(len(lines) - RUN + 1):
            places[tuple(lines[start : start + RUN])].append(name)
    return [f"{names}: {run[0]}" for run, names in places.items() if len(names) > 1]


def test_no_two_methods_share_a_run_of_six_lines():
    assert shared_runs({path.name: path.read_text("utf-8") for path in (SOURCE / "unlearn").glob("*.py")}) == []


def test_a_shared_run_is_found():
    run = "".join(f"    a{i} = {i}  # {i}\n" for i in range(RUN))
    ours, theirs = f"def f():\n    import os\n{run}", f"def g():\n    b = 1\n\n{run}"
    assert len(shared_runs({"ours": ours, "theirs": theirs})) == 1
    assert shared_runs({"ours": ours, "theirs": theirs.replace("a3", "c3")}) == []
    assert len(shared_runs({"one": ours + theirs})) == 1
