"""The cost of reading pooled features: all critics, folds, halves and the interval, over one logistic regression.

    python benchmarks/pooled.py [--only 512x2 --scale 1.0 --json]

Features are made: classes with means of their own, directions whose variance falls like 1 / i, a rotation, and the negative
half cut off as a ReLU does. `rs.mutual_information` reads them, and scikit-learn's `LogisticRegression` (lbfgs, default
tolerance) is fitted once on the same features, standardised, in double precision. Both run in one process on one thread, and
processor time is compared, so that a busy machine does not decide. The ratio is held to a bar for each size. The
regression's time depends on the features by way of its number of steps, which is printed too.
--scale takes a fraction of the samples, for a quick look; the bars are for all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import residua as rs


@dataclass(frozen=True)
class Size:
    samples: int
    features: int
    labels: int
    bar: float

    @property
    def name(self) -> str:
        return f"{self.features}x{self.labels}"


SIZES = (Size(20_000, 512, 2, 25), Size(20_000, 2048, 2, 30), Size(20_000, 512, 10, 30), Size(20_000, 512, 100, 30))
KINDS, KNOWN = 10, 0.12


def drawn(size: Size, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Features in single precision; of two labels the second is one class of ten."""
    random = np.random.default_rng(0)
    n, d, kinds = round(size.samples * scale), size.features, size.labels if size.labels > 2 else KINDS
    y = random.integers(0, kinds, n)
    z = random.normal(size=(n, d)) + KNOWN * random.normal(size=(kinds, d))[y]
    z *= np.arange(1, d + 1) ** -0.5
    z = np.maximum(z @ np.linalg.qr(random.normal(size=(d, d)))[0], 0)
    return z.astype(np.float32), y if size.labels > 2 else (y == 0).astype(np.int64)


def measured(size: Size, scale: float) -> dict[str, float]:
    z, y = drawn(size, scale)
    standard = (z - z.mean(0, dtype=np.float64)) / np.maximum(z.std(0, dtype=np.float64), 1e-12)
    start = time.process_time()
    regression = LogisticRegression(max_iter=1000).fit(standard, y)
    once, start = time.process_time() - start, time.process_time()
    read = rs.mutual_information(z, y)
    ours = time.process_time() - start
    return {
        "ratio": ours / once,
        "bar": size.bar,
        "read_seconds": ours,
        "regression_seconds": once,
        "regression_steps": float(regression.n_iter_.max()),
        "nats": read.value,
        "low": read.interval[0],
        "high": read.interval[1],
    }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[size.name for size in SIZES])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    rs.mutual_information(np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2)  # imports, first calls
    found = {}
    with threadpool_limits(1):
        for size in SIZES:
            if options.only in (None, size.name):
                found[size.name] = result = measured(size, options.scale)
                if not options.json:
                    print(
                        f"{size.name:>8}: {result['ratio']:.1f} times one regression (bar: {size.bar:.0f}), "
                        f"{result['read_seconds']:.1f} s over {result['regression_seconds']:.2f} s ({result['regression_steps']:.0f} steps), "
                        f"{result['nats']:.4f} nats [{result['low']:.4f}, {result['high']:.4f}]",
                        flush=True,
                    )
    if options.json:
        print(json.dumps(found, indent=1))
    return int(any(result["ratio"] > result["bar"] for result in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
