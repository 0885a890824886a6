"""Small faults put at random into the arithmetic of verdicts and of the estimator: how many do the tests notice?

    python benchmarks/mutants.py --number 60 --out records/mutants

Every fault is one operator, comparison or number of one file, in a copy of the package; the tests of its package run on
that copy until one fails. Faults are drawn from --seed, so that a table can be made again.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Files, and the tests that should notice a fault in them.
PLACES = {
    "compare/agreement.py": "tests/compare",
    "compare/references.py": "tests/compare",
    "compare/verdicts.py": "tests/compare",
    "compare/information.py": "tests/compare",
    "compare/accuracies.py": "tests/compare",
    "compare/likelihood_ratio.py": "tests/compare tests/measure/test_moved_and_odds.py",
    "compare/metric_values.py": "tests/compare",
    "compare/three_samples.py": "tests/compare",
    "measure/information/estimate.py": "tests/measure/information/test_estimate.py",
    "measure/information/summary.py": "tests/measure/information/test_estimate.py",
}
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
        i
        for i, node in enumerate(ast.walk(tree))
        if id(node) not in skipped and _change(copy.copy(node)) is not None
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
        was, node.value = node.value, node.value * 1.5 if isinstance(node.value, float) else node.value + 1
        return f"{was} -> {node.value}"
    return None


def fault(path: Path, draw: random.Random) -> tuple[str, int, str]:
    """The source of the file with one fault, its line and what it is."""
    tree = ast.parse(path.read_text("utf-8"))
    chosen = list(ast.walk(tree))[draw.choice(spots(tree))]
    words = _change(chosen)
    return ast.unparse(tree), getattr(chosen, "lineno", 0), words or ""


def noticed(name: str, source: str, tests: str) -> bool:
    """Do the tests fail on a copy of the package with this source?"""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        (Path(folder) / "src/residua" / name).write_text(source, "utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            *tests.split(),
        ]
        paths = os.pathsep.join([f"{folder}/src", str(ROOT)])
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, check=False
        )
        return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose name holds this")
    parser.add_argument("--out", type=Path, default=ROOT / "records/mutants")
    given = parser.parse_args()
    draw, rows, found = random.Random(given.seed), [], 0
    names = [name for name in PLACES if given.only in name]
    weights = [len(spots(ast.parse((ROOT / "src/residua" / name).read_text("utf-8")))) for name in names]
    for _ in range(given.number):
        name = draw.choices(names, weights)[0]
        source, line, words = fault(ROOT / "src/residua" / name, draw)
        seen = noticed(name, source, PLACES[name])
        found += seen
        rows.append(f"| {name}:{line} | {words} | {'noticed' if seen else 'SURVIVED'} |")
        print(rows[-1], flush=True)
    share = (
        f"{found} of {given.number} faults noticed ({100 * found / given.number:.0f} %), seed {given.seed}."
    )
    table = "\n".join([f"**{share}**", "", "| place | fault | |", "| --- | --- | --- |", *rows])
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "table.md").write_text(
        f"{table}\n\n`python benchmarks/mutants.py --number {given.number}`\n", "utf-8"
    )
    print(share)


if __name__ == "__main__":
    main()
