"""The cost of reading pooled features: all critics, folds, halves and the interval, over one logistic regression.

    python benchmarks/pooled.py [--only 512x2 --scale 1.0 --json]

Features are those of a random ReLU network on classes with means of their own: correlated directions, as in the last
blocks of a trained network. `rs.mutual_information` reads them, and scikit-learn's `LogisticRegression` (lbfgs, default tolerance)
is fitted once on the same features, standardised, in the same process on one thread. The ratio of the two times is held to a
bar for each size. The regression's time depends on the features by way of its number of steps, which is printed too.
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


SIZES = (
    Size(20_000, 512, 2, 25),
    Size(20_000, 2048, 2, 30),
    Size(20_000, 512, 10, 30),
    Size(20_000, 512, 100, 30),
)
HIDDEN, KINDS = 256, 10


def drawn(size: Size, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Features in single precision; of two labels the second is one class of ten."""
    random = np.random.default_rng(0)
    n, kinds = round(size.samples * scale), size.labels if size.labels > 2 else KINDS
    y = np.arange(n) % kinds
    z = random.normal(size=(n, HIDDEN)) + 0.15 * random.normal(size=(kinds, HIDDEN))[y]
    for wide in (HIDDEN, size.features):
        weights = random.normal(size=(z.shape[1], wide)) / z.shape[1] ** 0.5
        z = np.maximum(z @ weights + 0.1 * random.normal(size=(n, wide)), 0)
    return z.astype(np.float32), y if size.labels > 2 else (y == 0).astype(np.int64)


def measured(size: Size, scale: float) -> dict[str, float]:
    z, y = drawn(size, scale)
    standard = (z - z.mean(0)) / np.maximum(z.std(0), 1e-12)
    start = time.perf_counter()
    regression = LogisticRegression(max_iter=1000).fit(standard, y)
    once, start = time.perf_counter() - start, time.perf_counter()
    read = rs.mutual_information(z, y)
    ours = time.perf_counter() - start
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[size.name for size in SIZES])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    rs.mutual_information(
        np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    )  # imports, first calls
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
