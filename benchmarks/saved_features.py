"""Cost of an audit of many or wide saved features: 100,000 samples of 512 features of three models, and other sizes.

    python benchmarks/saved_features.py [--samples 100000 --features 512 --blocks 1 --classes 0 --seconds 300]

Features are made: classes with means of their own, directions of falling variance, a rotation for each model, cut off
as a ReLU does. The command line audits the three files. Processor time of all its processes and the peak memory of the
largest one, times the number of processes, are held to bars: five minutes of one core, or --seconds, and 4 GB. `make bench`
also audits 2,400 samples of 2,048 features (60 s) and 200,000 of 32 (40 s). The longest wait
between two lines of progress is reported beside them. With --classes C labels are C classes, as where single samples
are forgotten, and not "to be forgotten or not".
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from residua.parallel import processes

SECONDS, BYTES = 300, 4 << 30
KNOWS = {"original": 1.0, "unlearned": 0.8, "reference": 0.2}
LARGEST = resource.RUSAGE_CHILDREN


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--classes", type=int, default=0, help="labels are so many classes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="bar of the processor time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        for number, (role, knows) in enumerate(KNOWS.items()):
            write(Path(folder, f"{role}.npz"), options, number, knows)
        result = audited(Path(folder))
    over = result["processor"] > options.seconds or result["bytes"] > BYTES
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"{result['processor']:.0f} s of processor time (bar: {options.seconds:g}), {result['clock']:.0f} s by the clock, "
            f"{result['bytes'] / 2**30:.2f} GB at most (bar: {BYTES / 2**30:.0f}), {result['lines']} lines, at most "
            f"{result['silence']:.0f} s apart"
        )
    return int(over)


def write(path: Path, options: argparse.Namespace, number: int, knows: float) -> None:
    """The saved features of one model; `knows` is how far the forgotten class stands out."""
    n, d = options.samples, options.features
    kinds = options.classes or 10
    y = np.random.default_rng(0).integers(0, kinds, n)
    means = 0.12 * np.random.default_rng(1).normal(size=(kinds, d))
    means *= knows if options.classes else np.where(np.arange(kinds) == 6, knows, 1.0)[:, None]
    scale = np.exp(-4 * np.arange(d) / d)
    rng = np.random.default_rng(2 + number)
    blocks = {}
    for block in range(1, options.blocks + 1):
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32)
        z = rng.standard_normal((n, d), np.float32)
        z += means[y].astype(np.float32)
        z *= scale.astype(np.float32)
        blocks[f"block{block}"] = np.maximum(z @ turn, -0.02)
    np.savez(path, **blocks, labels=y if options.classes else (y == 6).astype(np.int64))


def audited(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "residua", "audit", "--features", "--out", str(folder / "audit")]
    for role in KNOWS:
        command += [f"--{role}", str(folder / f"{role}.npz")]
    before, start = resource.getrusage(LARGEST), time.monotonic()
    silence, last, lines = 0.0, start, 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            lines += "samples x" in line
            silence, last = max(silence, time.monotonic() - last), time.monotonic()
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"the audit ended with {process.returncode}")
    after = resource.getrusage(LARGEST)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "processor": spent,
        "clock": time.monotonic() - start,
        "bytes": after.ru_maxrss * 1024 * min(processes(), len(KNOWS)),
        "lines": lines,
        "silence": silence,
    }


if __name__ == "__main__":
    raise SystemExit(main())
