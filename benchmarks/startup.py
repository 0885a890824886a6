"""Time of `residua --help` against importing PyTorch: python benchmarks/startup.py [--rounds 5] [--json]

Processor time of child processes, the two in turn; the median of the rounds is compared, after one of each that fills the
file cache. The exit code is 1 where the help takes longer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

PROGRAMS = {"help": ["-m", "residua", "--help"], "torch": ["-c", "import torch"]}
BAR = 1.0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    for arguments in PROGRAMS.values():
        seconds(arguments)
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(options.rounds):
        for name, arguments in PROGRAMS.items():
            times[name].append(seconds(arguments))
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratio = medians["help"] / medians["torch"]
    if options.json:
        print(json.dumps(medians | {"ratio": ratio}))
    else:
        print(f"residua --help: {medians['help']:.2f} s, import torch: {medians['torch']:.2f} s")
        print(f"{ratio:.2f} times (bar: {BAR:g})")
    return int(ratio > BAR)


def seconds(arguments: Sequence[str]) -> float:
    """Processor time of a Python with these arguments."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system)


if __name__ == "__main__":
    sys.exit(main())
