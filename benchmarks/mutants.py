"""Small faults put at random into the arithmetic of verdicts and of the estimator: how many do the tests notice?

    python benchmarks/mutants.py --number 60 --out records/mutants

Every fault is one operator, comparison or number of one file; the tests of its package run on it until one fails, in a
fork. A fault in a function is put into the imported package, any other (a constant, a default) into a copy of it, which
the fork has to import. Faults are drawn from --seed, so that a table can be made again; a run that was stopped by
--minutes goes on from its table.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

# What the package and its tests import, which every fork then has already.
import matplotlib.pyplot  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sklearn.metrics  # noqa: F401
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
# Files, and the tests that should notice a fault in them, the quickest first.
EXACT = "tests/compare/test_exact.py"
PLACES = {
    "compare/agreement.py": f"tests/compare/test_agreement.py {EXACT}",
    "compare/references.py": f"{EXACT} tests/compare/test_several_references.py",
    "compare/verdicts.py": f"tests/compare/test_verdict.py {EXACT}",
    "compare/information.py": f"{EXACT} tests/compare/test_idi.py",
    "compare/accuracies.py": f"tests/compare/test_guards.py {EXACT} tests/compare/test_comparisons.py",
    "compare/likelihood_ratio.py": "tests/compare/test_likelihood_ratio.py tests/compare/test_rivals.py",
    "compare/metric_values.py": f"{EXACT} tests/compare/test_credit.py tests/compare/test_rivals.py tests/compare/test_comparisons.py tests/measure/test_moved_and_odds.py",
    "compare/three_samples.py": f"{EXACT} tests/compare/test_three_sample.py",
    "measure/information/estimate.py": "tests/measure/information/test_arithmetic.py tests/measure/information/test_estimate.py",
    "measure/information/summary.py": "tests/measure/information/test_arithmetic.py tests/measure/information/test_estimate.py",
}  # fmt: skip
# What holds the function of a property, a cached property, a cached function and a class method.
INNER = ("fget", "func", "__wrapped__", "__func__")
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def spots(tree: ast.Module) -> list[int]:
    """Numbers of the nodes that can be changed; annotations and docstrings are none."""
    skipped = {id(part) for node in ast.walk(tree) for name in ("annotation", "returns")
               if (note := getattr(node, name, None)) is not None for part in ast.walk(note)}  # fmt: skip
    return [
        i for i, node in enumerate(ast.walk(tree)) if id(node) not in skipped and _change(copy.copy(node)) is not None
    ]


def _change(node: ast.AST) -> str | None:
    """Change the node in place and say how; None where nothing can be changed."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return None
        was, node.op = node.op, SWAPS[type(node.op)]()
        return f"{type(was).__name__} -> {type(node.op).__name__}"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        was, node.ops = node.ops[0], [SWAPS[type(node.ops[0])](), *node.ops[1:]]
        return f"{type(was).__name__} -> {type(node.ops[0]).__name__}"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        was, node.value = (node.value, (node.value * 1.5 or 1.0) if isinstance(node.value, float) else node.value + 1)
        return f"{was} -> {node.value}"
    return None


def fault(path: Path, draw: random.Random) -> tuple[str, int, str]:
    """The source of the file with one fault, its line and what it is."""
    tree = ast.parse(path.read_text("utf-8"))
    chosen = list(ast.walk(tree))[draw.choice(spots(tree))]
    words = _change(chosen)
    return ast.unparse(tree), getattr(chosen, "lineno", 0), words or ""


def noticed(name: str, source: str, tests: str) -> bool:
    """Do the tests fail where the file has this source? They run in a fork."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        code = 1
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1), os.dup2(nothing, 2)
            if not put_in(name, source):
                import_copy(name, source, Path(folder))
            os.chdir(ROOT)
            code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *tests.split()]))
        finally:
            os._exit(code)


def put_in(name: str, source: str) -> bool:
    """Give functions of the imported file the code of this source; False where that would not be the whole difference."""
    plain = (ROOT / "src/residua" / name).read_text("utf-8")
    if outside(plain) != outside(source):
        return False
    module = importlib.import_module("residua." + name.removesuffix(".py").replace("/", "."))
    before, after = (dict(codes(compile(ast.unparse(ast.parse(text)), name, "exec"))) for text in (plain, source))
    for place, code in after.items():
        *owner, last = place.split(".")
        holder = vars(module)[owner[0]] if owner else module
        found = vars(holder).get(last)
        # What a class or a function defines is a part of its code; a function's is put in with it.
        if code == before.get(place) or isinstance(found, type) or isinstance(holder, FunctionType):
            continue
        function = next((each for each in (getattr(found, inner, None) for inner in INNER) if each), found)
        if not isinstance(function, FunctionType) or code.co_freevars != function.__code__.co_freevars:
            return False
        function.__code__ = code
    return True


def outside(source: str) -> str:
    """The source without what its functions do."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


def codes(whole: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The code of every function, class and method, by its name."""
    for each in whole.co_consts:
        if isinstance(each, CodeType):
            yield each.co_name, each
            inner = (part for part in each.co_consts if isinstance(part, CodeType))
            yield from ((f"{each.co_name}.{part.co_name}", part) for part in inner)


def import_copy(name: str, source: str, folder: Path) -> None:
    """Let what will be imported be a copy of the package that has this source."""
    shutil.copytree(ROOT / "src", folder / "src")
    (folder / "src/residua" / name).write_text(source, "utf-8")
    os.environ["PYTHONPATH"] = os.pathsep.join([f"{folder}/src", str(ROOT)])
    sys.path.insert(0, f"{folder}/src")
    for imported in [each for each in sys.modules if each.split(".")[0] == "residua"]:
        del sys.modules[imported]


def drawn(number: int, seed: int, only: str) -> list[tuple[str, str, str]]:
    """So many faults: the file, its source with the fault, and the words of a row."""
    draw, names = random.Random(seed), [name for name in PLACES if only in name]
    weights = [len(spots(ast.parse((ROOT / "src/residua" / name).read_text("utf-8")))) for name in names]
    found = []
    for _ in range(number):
        name = draw.choices(names, weights)[0]
        source, line, words = fault(ROOT / "src/residua" / name, draw)
        found.append((name, source, f"| {name}:{line} | {words} |"))
    return found


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no further fault after so long")
    parser.add_argument("--out", type=Path, default=ROOT / "records/mutants")
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="the tests are known to pass as they are"
    )
    given = parser.parse_args()
    importlib.import_module("residua.study.presets")
    table, end = given.out / "table.md", time.monotonic() + 60 * given.minutes
    # A fault that was noticed is not run again; one that survived is, since tests are written for it.
    before = set(table.read_text("utf-8").splitlines()) if table.exists() else set()
    for name, tests in PLACES.items() if given.check else ():
        if noticed(name, (ROOT / "src/residua" / name).read_text("utf-8"), tests):
            raise SystemExit(f"{tests} fail without any fault; repair them first")
    rows = []
    for name, source, words in drawn(given.number, given.seed, given.only):
        if f"{words} noticed |" in before:
            rows.append(f"{words} noticed |")
        elif time.monotonic() < end:
            rows.append(f"{words} {'noticed' if noticed(name, source, PLACES[name]) else 'SURVIVED'} |")
            print(rows[-1], flush=True)
        else:
            rows.append(f"{words} not run |")
        given.out.mkdir(parents=True, exist_ok=True)
        table.write_text(_table(rows, given.number, given.seed), "utf-8")
    print(rows and _table(rows, given.number, given.seed).splitlines()[0])


def _table(rows: list[str], number: int, seed: int) -> str:
    run = [row for row in rows if not row.endswith(" not run |")]
    found = sum(row.endswith(" noticed |") for row in run)
    share = f"**{found} of {len(run)} faults noticed ({100 * found / max(len(run), 1):.0f} %), seed {seed}.**"
    command = f"`python benchmarks/mutants.py --number {number} --seed {seed}`"
    return "\n".join([share, "", "| place | fault | |", "| --- | --- | --- |", *rows, "", command, ""])


if __name__ == "__main__":
    main()
