"""Calibration: problems whose mutual information is known, and the estimator's readings of them.

The instrument that is calibrated is the one that audits use: `InformationCurve` itself, on a frozen network whose block
gives planted features. An image of a planted task holds nothing but its own number; the network's first block looks up
the features of that number. The rest is as in any network: a block whose architecture the critic takes, pooling, a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from residua.data.from_arrays import arrays
from residua.data.task import ForgetTask, forget_classes, forget_indices
from residua.measure.information.curve import InformationCurve
from residua.models.classifier import Classifier
from residua.readings import Curve

PLANE = 4  # side of a map, in places
TEST = 40  # test samples per label: they are read beside, and not calibrated


class Drawn(Protocol):
    """A problem from which features and labels can be drawn."""

    @property
    def labels(self) -> int: ...

    @property
    def n(self) -> int: ...

    def draw(self, random: np.random.Generator, n: int | None = None) -> tuple[np.ndarray, np.ndarray]: ...


class LookUp(nn.Module):
    """The features of each image: those that stand under the number that its pixels spell."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table: Tensor
        self.places: Tensor
        self.register_buffer("table", table)
        self.register_buffer("places", 256.0 ** torch.arange(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        digits = (x.flatten(1).double() * 255).round()
        z: Tensor = self.table[(digits @ self.places).long()]
        return z.permute(0, 3, 1, 2) if z.ndim == 4 else z

    def reset_parameters(self) -> None:
        """Nothing is drawn: what was planted stays."""


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3)) if x.ndim == 4 else x


def planted_task(problem: Drawn, seed: int) -> tuple[ForgetTask, Tensor]:
    """A task whose labels are the problem's, and the table of features that its images point to.

    Two labels are a class-wise task, in which class 1 is to be forgotten; more are random forgetting of all samples but one
    of each class, since that asks for the class.
    """
    random = np.random.default_rng(seed)
    z, y = problem.draw(random, problem.n)
    z_test, y_test = problem.draw(random, TEST * problem.labels)
    if problem.labels > 2:  # what is retained is never read: critics are fitted on what is forgotten
        z_more, y_more = problem.draw(random, 20 * problem.labels)
        z, y = np.concatenate([z, z_more]), np.concatenate([y, y_more])
    data = arrays(
        _numbered(0, len(y)), y, _numbered(len(y), len(y_test)), y_test, classes=problem.labels,
        mean=(0.0,), std=(1.0,), name="planted",
    )  # fmt: skip
    table = torch.from_numpy(np.concatenate([z, z_test])).float()
    task = forget_classes(data, 1) if problem.labels == 2 else forget_indices(data, range(problem.n))
    return task, table


def planted_network(table: Tensor, *, labels: int) -> Classifier:
    """A classifier whose first block gives the planted features. Maps have a second block, which a network critic
    takes the shape of; vectors are the last block themselves."""
    width = table.shape[-1]
    blocks: list[nn.Module] = [LookUp(table)]
    if table.ndim == 4:
        blocks.append(nn.Sequential(nn.Conv2d(width, 16, 1), nn.BatchNorm2d(16), nn.ReLU()))
        width = 16
    return Classifier(blocks, nn.Linear(width, labels), pool=Mean()).eval()


def _numbered(first: int, count: int) -> np.ndarray:
    """Images of 2 x 2 pixels that spell first, first + 1, ... in base 256."""
    numbers = np.arange(first, first + count)
    return np.stack([(numbers >> (8 * i)) & 255 for i in range(4)], 1).astype(np.uint8).reshape(-1, 1, 2, 2)


Kind = Literal["shift", "scale", "sign", "grid", "texture", "squares"]
MAPS = ("texture", "squares")


@dataclass(frozen=True)
class Problem:
    """A distribution of features and labels whose I(Z; Y) is an integral over a line.

    - `shift`: two normal clouds of unit variance, `strength` apart. A line tells all.
    - `scale`: two normal clouds with the same mean, one `strength` times as wide. No line tells anything.
    - `sign`: as `shift`, but the telling coordinate is multiplied by a random sign, which another coordinate keeps.
    - `grid`: a x b = `labels` classes, each at a point of a grid with spacing `strength` in unit noise; the
      two coordinates are independent, so their informations add up.
    - `texture`: maps of `dimensions` channels; in one of them places are drawn from a Laplace distribution, `strength` times
      as wide where the label is 1. The mean over places tells next to nothing; the sum of |z| over places tells all,
      and two units of a convolution with ReLU compute it.
    - `squares`: the same with normal places. The sum of z^2 tells all, which a few such units only approach.

    Other coordinates are noise. All are mixed by a random matrix of this `condition` (1: a rotation), with the telling one made `faint` times as
    large before. `positive` is the fraction of label 1. `beyond` says why the truth is out of the estimator's reach, where it is.
    """

    name: str
    kind: Kind
    n: int
    dimensions: int
    strength: float
    positive: float = 0.5
    labels: int = 2
    condition: float = 1.0
    faint: float = 1.0
    beyond: str = ""

    def truth(self) -> float:
        """I(Z; Y) in nats, by quadrature to at least eight digits."""
        if self.kind == "texture":  # the sum of |z| over places is a Gamma variable, scaled
            return _gamma(PLANE**2, self.strength, self.positive)
        if self.kind in ("scale", "squares"):  # |z|^2 is chi-squared, scaled: half of it is a Gamma variable
            wide = self.dimensions if self.kind == "scale" else PLANE**2
            return _gamma(wide / 2, self.strength**2, self.positive)
        if self.kind == "grid":
            rows, columns = _sides(self.labels)
            return sum(_separate([], [self.strength * i for i in range(side)]) for side in (rows, columns))
        return _separate([self.positive], [0.0, self.strength])

    def draw(self, random: np.random.Generator, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, dimensions), or maps (n, side, side, dimensions), and labels (n)."""
        n = n or self.n
        y = (random.random(n) < self.positive).astype(np.int64)
        if self.kind in MAPS:
            z = random.normal(size=(n, PLANE, PLANE, self.dimensions))
            if self.kind == "texture":
                z[..., 0] = random.laplace(size=z.shape[:3])
            z[..., 0] *= np.where(y == 1, self.strength, 1.0)[:, None, None]
        else:
            z = random.normal(size=(n, self.dimensions))
        if self.kind == "grid":
            _, columns = _sides(self.labels)
            y = random.integers(0, self.labels, n)
            z[:, 0] += self.strength * (y // columns)
            z[:, 1] += self.strength * (y % columns)
        elif self.kind == "scale":
            z *= np.where(y == 1, self.strength, 1.0)[:, None]
        elif self.kind in ("shift", "sign"):
            z[:, 0] += self.strength * y
        if self.kind == "sign":
            z[:, 1] = random.choice([-1.0, 1.0], n)
            z[:, 0] *= z[:, 1]
        z[..., 0] *= self.faint
        left, right = (np.linalg.qr(random.normal(size=(self.dimensions,) * 2))[0] for _ in range(2))
        return z @ (left * np.geomspace(1, 1 / self.condition, self.dimensions) @ right), y


# From 250 samples to 20,000, from 1:1 to 1:99, of two, ten and a hundred labels.
PROBLEMS = (
    Problem("shift-250x8", "shift", 250, 8, 2.0),
    Problem("shift-1000x8", "shift", 1000, 8, 1.5),
    Problem("shift-2000x16-1to9", "shift", 2000, 16, 2.0, positive=0.1),
    Problem("shift-6000x64-1to9", "shift", 6000, 64, 2.0, positive=0.1),
    Problem("shift-6000x64-weak", "shift", 6000, 64, 1.0),
    Problem("shift-6000x16-1to20", "shift", 6000, 16, 2.0, positive=1 / 21),
    Problem("shift-6000x32-1to99", "shift", 6000, 32, 3.0, positive=0.01),
    Problem("shift-20000x16-1to99", "shift", 20_000, 16, 2.0, positive=0.01),
    Problem("mixed-2000x16", "shift", 2000, 16, 2.0, condition=1e4),
    Problem("faint-2000x16", "shift", 2000, 16, 2.0, faint=1e-3),
    Problem("scale-2000x8", "scale", 2000, 8, 1.5),
    Problem("scale-6000x16-1to5", "scale", 6000, 16, 1.3, positive=1 / 6),
    Problem("sign-2000x16", "sign", 2000, 16, 2.0),
    Problem("grid-500x16-10", "grid", 500, 16, 2.0, labels=10),
    Problem("grid-6000x16-10", "grid", 6000, 16, 2.0, labels=10),
    Problem("grid-6000x8-100", "grid", 6000, 8, 2.0, labels=100),
    Problem("texture-2000x8", "texture", 2000, 8, 2.0),
    Problem("texture-6000x8-1to9", "texture", 6000, 8, 2.0, positive=0.1),
    Problem("squares-2000x8", "squares", 2000, 8, 1.6, beyond="16 units with ReLU only approach a square"),
    Problem("none-250x16", "shift", 250, 16, 0.0),
    Problem("none-6000x64-1to9", "shift", 6000, 64, 0.0, positive=0.1),
)


@dataclass(frozen=True)
class Calibration:
    """Repeated readings of one problem, against its known truth."""

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
        """Fraction of the 95 % intervals that contain the truth."""
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


def read(problem: Problem, seed: int) -> Curve:
    """The curve of one fresh draw, at the block that gives the planted features."""
    task, table = planted_task(problem, seed)
    network = planted_network(table, labels=problem.labels)
    return InformationCurve(blocks=(1,), fit_on="forget", seed=seed)(network, task)


def calibrate(problem: Problem, repeats: int = 100, first: int = 0) -> Calibration:
    """Read a problem many times, on fresh draws from the seeds `first`, `first` + 1, ..."""
    found = []
    for seed in range(first, first + repeats):
        curve = read(problem, seed)
        found.append((curve.information[1], *curve.intervals[1]))
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
    joint = [p * np.exp(-((x - c) ** 2) / 2) / math.sqrt(2 * math.pi) for p, c in zip(shares, centres, strict=True)]
    return _integrate(joint, shares, x)


def _gamma(shape: float, ratio: float, positive: float) -> float:
    """I between a label and a Gamma variable of this shape whose scale is 1 or `ratio`."""
    x = np.linspace(1e-9, max(1.0, ratio) * (shape + 20 * math.sqrt(shape) + 60), 1_000_001)

    def density(scale: float) -> np.ndarray:
        return np.exp((shape - 1) * np.log(x / scale) - x / scale - math.lgamma(shape)) / scale

    return _integrate([(1 - positive) * density(1.0), positive * density(ratio)], [1 - positive, positive], x)


def _integrate(joint: list[np.ndarray], shares: list[float], x: np.ndarray) -> float:
    """Sum over labels of the integral of p(x, y) log( p(x, y) / (p(x) p(y)) )."""
    total = np.sum(joint, axis=0)
    terms = [
        np.where(j > 0, j * np.log(np.maximum(j, 1e-320) / (np.maximum(total, 1e-320) * p)), 0.0)
        for j, p in zip(joint, shares, strict=True)
    ]
    whole = np.sum(terms, axis=0)
    return max(0.0, float(((whole[1:] + whole[:-1]) / 2 * np.diff(x)).sum()))
