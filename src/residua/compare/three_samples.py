"""Three-sample test: is the unlearned model closer to the reference than to Original?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.errors import InputError

FEWEST = 20
MOST = 1000

Side = Literal["reference", "original"]


@dataclass(frozen=True)
class ThreeSample:
    """The relative MMD test of rows u (unlearned), r (reference) and o (Original) for the same samples.

        D = MMD^2(u, r) - MMD^2(u, o),    null hypothesis: D = 0

    `to_reference` and `to_original` are the two MMD^2, unbiased, so they may fall below 0.
    `p_reference` is the p-value against D >= 0 (small: closer to the reference), `p_original` the one
    against D <= 0. Exchanging r and o exchanges the two.
    """

    to_reference: float
    to_original: float
    error: float
    p_reference: float
    p_original: float
    n: int

    @property
    def difference(self) -> float:
        return self.to_reference - self.to_original

    def closer_to(self, level: float) -> Side | None:
        """The model that the unlearned one is closer to, at this one-sided significance level; None: inconclusive."""
        if self.p_reference < level:
            return "reference"
        return "original" if self.p_original < level else None


def three_sample(unlearned: np.ndarray, reference: np.ndarray, original: np.ndarray) -> ThreeSample:
    """The test on rows (n, d) in coordinates that the three models share, such as probabilities.

    The rows of the three models belong to the same samples, so they are not independent. D is therefore a
    U-statistic of triples w_i = (u_i, r_i, o_i),

        D = mean over i != j of  k(r_i, r_j) - k(o_i, o_j)
                                 - k(u_i, r_j) - k(r_i, u_j) + k(u_i, o_j) + k(o_i, u_j),

    in which no sample ever meets itself; k(u, u) cancels. Its variance is the jackknife's, which knows of the
    dependence and errs on the large side. The kernel is Gaussian; its width is the median distance
    within the three samples together, the same for both sides. Beyond `MOST` samples, evenly spaced ones are taken.

    Args:
        unlearned: Rows of the unlearned model.
        reference: Rows of the reference, for the same samples.
        original: Rows of Original, for the same samples.
    """
    # The kernel h(w_i, w_j) of the U-statistic, its mean for every sample, and the jackknife's variance of their mean.
    u, r, o = _rows(unlearned, reference, original)
    n = len(u)
    gamma = _inverse_width(np.concatenate([u, r, o]))
    cross_r, cross_o = _kernel(u, r, gamma), _kernel(u, o, gamma)
    pairs = _kernel(r, r, gamma) - _kernel(o, o, gamma)
    pairs += cross_o + cross_o.T - cross_r - cross_r.T
    np.fill_diagonal(pairs, 0.0)
    own = _mean_off_diagonal(_kernel(u, u, gamma))
    of_each = pairs.sum(axis=1) / (n - 1)
    difference = float(of_each.mean())
    variance = 4 * (n - 1) / (n * (n - 2) ** 2) * float(((of_each - difference) ** 2).sum())
    error = math.sqrt(max(variance, 0.0))
    to_reference = own + _mean_off_diagonal(_kernel(r, r, gamma)) - 2 * _mean_off_diagonal(cross_r)
    z = difference / error if error > 1e-12 else math.copysign(math.inf, difference)
    if abs(difference) < 1e-12:
        z = 0.0
    return ThreeSample(
        to_reference=to_reference,
        to_original=to_reference - difference,
        error=error,
        p_reference=_below(z),
        p_original=_below(-z),
        n=n,
    )


def _rows(*arrays: np.ndarray) -> list[np.ndarray]:
    rows = [np.asarray(array, np.float64) for array in arrays]
    if any(row.ndim != 2 or row.shape != rows[0].shape for row in rows):
        shapes = ", ".join(str(row.shape) for row in rows)
        raise InputError(f"rows of {shapes} cannot be compared; give (n, d) of three models, same samples")
    if len(rows[0]) < FEWEST:
        raise InputError(f"{len(rows[0])} samples are too few for a three-sample test; give {FEWEST} or more")
    if not all(np.isfinite(row).all() for row in rows):
        raise InputError("a three-sample test cannot take NaN or infinite values; give finite numbers")
    if len(rows[0]) > MOST:
        some = np.linspace(0, len(rows[0]) - 1, MOST).astype(int)
        rows = [row[some] for row in rows]
    return rows


def _squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    distances = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
    return np.maximum(distances, 0.0)


def _inverse_width(rows: np.ndarray) -> float:
    """1 / (2 median^2) of the distances; their mean where half of them are 0."""
    squares = _squares(rows, rows)[np.triu_indices(len(rows), 1)]
    # Equal rows, whose distance is a rounding error.
    squares[squares < 1e-12 * max(float((rows**2).sum(axis=1).max()), 1e-300)] = 0.0
    width = float(np.median(squares)) or float(squares.mean())
    return 1 / (2 * width) if width else 1.0


def _kernel(x: np.ndarray, y: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * _squares(x, y))


def _mean_off_diagonal(gram: np.ndarray) -> float:
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1)))


def _below(z: float) -> float:
    """The standard normal's mass below z."""
    return math.erfc(-z / math.sqrt(2)) / 2
