"""Fuzz every reader and keep a record: python tests/fuzz/run.py --count 15000 --out records/fuzz

Inputs are numbered, so the same command tries the same inputs; a run that was stopped goes on where it was. Findings
are kept with their number: --target and --number repeat one.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hostile")]

from fuzzing import Result, try_input  # noqa: E402
from sandbox import MOST_BYTES, MOST_SECONDS, PATIENCE, Sandbox  # noqa: E402
from targets import TARGETS  # noqa: E402

from residua.files import write_atomically  # noqa: E402

PACKAGES = ("residua", "torch", "numpy", "pillow", "pyarrow", "safetensors", "pydantic")
EVERY = 50  # inputs between two writings of the record
ONE_AT_A_TIME = threading.Lock()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--count", type=int, default=15_000, help="inputs, shared by the targets: those that take seconds get fewer"
    )
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--jobs", type=int, default=2, help="targets that are tried at once")
    parser.add_argument("--target", choices=TARGETS, help="this reader alone")
    parser.add_argument("--number", type=int, help="this input alone")
    options = parser.parse_args()
    names = [options.target] if options.target else list(TARGETS)
    if options.number is not None:
        with Sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
            for name in names:
                print(name, try_input(sandbox, name, options.number, Path(folder, "files")))  # noqa: T201
        return 0
    shares = {name: TARGETS[name].share for name in names}
    each = {name: -int(-options.count * share // sum(shares.values())) for name, share in shares.items()}
    record = read_or_start(options.out, each, names)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda name: fuzz(record, name, each[name], options.out), names))
    total = sum(counts["inputs"] for counts in record["targets"].values())
    print(f"{total} inputs, {len(record['findings'])} findings")  # noqa: T201
    return 1 if record["findings"] else 0


def fuzz(record: dict[str, Any], name: str, each: int, out: Path | None) -> None:
    """Try the inputs of one target that have not been tried yet."""
    counts = record["targets"][name]
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        while counts["inputs"] < each:
            number = counts["inputs"] + 1
            result = try_input(sandbox, name, number, Path(folder, "files"))
            with ONE_AT_A_TIME:
                add(record, name, number, result)
                if number % EVERY == 0 or number == each:
                    write(out, record)
    print(name, json.dumps(counts), flush=True)  # noqa: T201


def read_or_start(out: Path | None, each: dict[str, int], names: list[str]) -> dict[str, Any]:
    """The record of a run that was stopped, if it is one of these inputs; else an empty one."""
    packages = {name: version(name) for name in PACKAGES} | {"python": platform.python_version()}
    about = {
        "command": shlex.join(["python", *sys.argv]),
        "software": packages,
        "limits": {"seconds": MOST_SECONDS, "bytes": MOST_BYTES, "hang after seconds": PATIENCE},
        "inputs of each target": each,
    }
    if out and (out / "fuzz.json").exists():
        found = json.loads((out / "fuzz.json").read_text("utf-8"))
        if {key: found.get(key) for key in about} == about and list(found["targets"]) == names:
            return found
    empty = {"inputs": 0, "read": 0, "refused": 0, "findings": 0, "crashes": 0, "most seconds": 0.0, "most bytes": 0}
    return {**about, "targets": {name: dict(empty) for name in names}, "findings": []}


def add(record: dict[str, Any], name: str, number: int, result: Result) -> None:
    counts = record["targets"][name]
    counts["inputs"] = number
    counts[result.outcome if result.good else "findings"] += 1
    counts["crashes"] += result.crashed
    counts["most seconds"] = max(counts["most seconds"], round(result.seconds, 2))
    counts["most bytes"] = max(counts["most bytes"], result.peak)
    if not result.good:
        record["findings"].append({"target": name, "number": number, "outcome": result.outcome})
        print(name, number, result.outcome, flush=True)  # noqa: T201


def write(out: Path | None, record: dict[str, Any]) -> None:
    if out:
        text = json.dumps(record, indent=1) + "\n"
        write_atomically(out / "fuzz.json", lambda part: part.write_text(text, encoding="utf-8"))
        write_atomically(out / "table.md", lambda part: part.write_text(table(record), encoding="utf-8"))


def table(record: dict[str, Any]) -> str:
    """The counts by target."""
    columns = ("inputs", "read", "refused", "findings", "crashes", "most seconds", "most MB")
    lines = ["**Mutated inputs to every reader**", "", f"| target | {' | '.join(columns)} |", "|---" * 8 + "|"]
    for name, counts in record["targets"].items():
        cells = [counts[column] for column in columns[:-1]] + [counts["most bytes"] // 10**6]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    total = sum(counts["inputs"] for counts in record["targets"].values())
    lines += ["", f"{total} inputs, {len(record['findings'])} findings: a finding is an exit code other than 0 and 3, more than "
              f"{record['limits']['seconds']:g} seconds of processor time or {record['limits']['bytes'] >> 20} MiB, a hang, more than one sentence, or a file left "
              f"behind or changed, also outside of the input's folder. Crashes are those of the children that decode, after which the file is refused. The memory includes the imported libraries. `{record['command']}`"]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
