"""Calibration: features whose mutual information with their label is known, and how the ruler reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.information import Information, mutual_information

Kind = Literal["shift", "scale", "grid"]


@dataclass(frozen=True)
class Problem:
    """A distribution of features and labels whose I(Z; Y) is an integral over a line.

    - `shift`: two normal clouds of unit variance, `strength` apart. A line tells all.
    - `scale`: two normal clouds with the same mean, one `strength` times as wide. No line tells anything.
    - `grid`: a x b = `labels` classes, each at a point of a grid with spacing `strength` in unit noise; the
      two coordinates are independent, so their informations add up.

    Other coordinates are noise, and all are rotated at random. `positive` is the share of label 1.
    """

    name: str
    kind: Kind
    n: int
    dimensions: int
    strength: float
    positive: float = 0.5
    labels: int = 2

    def truth(self) -> float:
        """I(Z; Y) in nats, by quadrature to at least eight digits."""
        if self.kind == "shift":
            return _separate([self.positive], [0.0, self.strength])
        if self.kind == "scale":
            return _radial(self.dimensions, self.strength, self.positive)
        rows, columns = _sides(self.labels)
        return sum(_separate([], [self.strength * i for i in range(side)]) for side in (rows, columns))

    def draw(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, dimensions) and labels (n)."""
        z = random.normal(size=(self.n, self.dimensions))
        if self.kind == "grid":
            _, columns = _sides(self.labels)
            y = random.integers(0, self.labels, self.n)
            z[:, 0] += self.strength * (y // columns)
            z[:, 1] += self.strength * (y % columns)
        else:
            y = (random.random(self.n) < self.positive).astype(np.int64)
            if self.kind == "shift":
                z[:, 0] += self.strength * y
            else:
                z *= np.where(y == 1, self.strength, 1.0)[:, None]
        rotation, _ = np.linalg.qr(random.normal(size=(self.dimensions, self.dimensions)))
        return z @ rotation, y


PROBLEMS = (
    Problem("shift-1000x8", "shift", 1000, 8, 1.5),
    Problem("shift-2000x16-1to9", "shift", 2000, 16, 2.0, positive=0.1),
    Problem("shift-6000x64", "shift", 6000, 64, 2.0),
    Problem("shift-6000x64-weak", "shift", 6000, 64, 1.0),
    Problem("shift-6000x16-1to20", "shift", 6000, 16, 2.0, positive=1 / 21),
    Problem("shift-6000x64-1to99", "shift", 6000, 64, 3.0, positive=0.01),
    Problem("scale-2000x8", "scale", 2000, 8, 1.5),
    Problem("scale-6000x16-1to5", "scale", 6000, 16, 1.3, positive=1 / 6),
    Problem("grid-6000x16-10", "grid", 6000, 16, 2.0, labels=10),
    Problem("grid-6000x8-100", "grid", 6000, 8, 2.0, labels=100),
    Problem("none-2000x16", "shift", 2000, 16, 0.0),
    Problem("none-6000x64-1to9", "shift", 6000, 64, 0.0, positive=0.1),
)


@dataclass(frozen=True)
class Calibration:
    """What many readings of one problem were like."""

    problem: Problem
    truth: float
    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def bias(self) -> float:
        return float(self.values.mean()) - self.truth

    @property
    def spread(self) -> float:
        return float(self.values.std(ddof=1))

    @property
    def coverage(self) -> float:
        """How often the 95 % interval held the truth."""
        return float(((self.lows <= self.truth) & (self.truth <= self.highs)).mean())

    def readings(self) -> dict[str, float]:
        return {
            "truth": self.truth,
            "mean": float(self.values.mean()),
            "bias": self.bias,
            "spread": self.spread,
            "coverage": self.coverage,
            "repeats": float(len(self.values)),
        }


def repeat(problem: Problem, repeats: int) -> Iterator[Information]:
    """Readings of `repeats` fresh draws, one by one."""
    for seed in range(repeats):
        features, labels = problem.draw(np.random.default_rng(seed))
        yield mutual_information(features, labels, seed=seed)


def calibrate(
    problem: Problem, repeats: int = 100, progress: Callable[[int], None] | None = None
) -> Calibration:
    """Read a problem many times."""
    found = []
    for i, reading in enumerate(repeat(problem, repeats), start=1):
        found.append((reading.value, *reading.interval))
        if progress:
            progress(i)
    values, lows, highs = (np.array(column) for column in zip(*found, strict=True))
    return Calibration(problem, problem.truth(), values, lows, highs)


def _sides(labels: int) -> tuple[int, int]:
    """The most square a x b with a b = labels."""
    rows = max(a for a in range(1, math.isqrt(labels) + 1) if labels % a == 0)
    return rows, labels // rows


def _separate(positive: list[float], centres: list[float]) -> float:
    """I between a label and a normal variable of unit variance around its centre."""
    shares = [1 - positive[0], positive[0]] if positive else [1 / len(centres)] * len(centres)
    x = np.linspace(min(centres) - 12, max(centres) + 12, 400_001)
    joint = [
        p * np.exp(-((x - c) ** 2) / 2) / math.sqrt(2 * math.pi) for p, c in zip(shares, centres, strict=True)
    ]
    return _integrate(joint, shares, x)


def _radial(dimensions: int, ratio: float, positive: float) -> float:
    """I between a label and a normal cloud whose deviation is 1 or `ratio`: only |z|^2 matters, which is
    chi-squared, scaled."""
    widest = max(1.0, ratio) ** 2
    r = np.linspace(1e-9, widest * (dimensions + 20 * math.sqrt(2 * dimensions) + 60), 1_000_001)

    def density(variance: float) -> np.ndarray:
        half = dimensions / 2
        log = (half - 1) * np.log(r / variance) - r / variance / 2 - half * math.log(2) - math.lgamma(half)
        return np.exp(log) / variance

    return _integrate(
        [(1 - positive) * density(1.0), positive * density(ratio**2)], [1 - positive, positive], r
    )


def _integrate(joint: list[np.ndarray], shares: list[float], x: np.ndarray) -> float:
    """Sum over labels of the integral of p(x, y) log( p(x, y) / (p(x) p(y)) )."""
    total = np.sum(joint, axis=0)
    terms = [
        np.where(j > 0, j * np.log(np.maximum(j, 1e-320) / (np.maximum(total, 1e-320) * p)), 0.0)
        for j, p in zip(joint, shares, strict=True)
    ]
    whole = np.sum(terms, axis=0)
    return max(0.0, float(((whole[1:] + whole[:-1]) / 2 * np.diff(x)).sum()))
