"""Three-sample test: is the unlearned model closer to the reference than to Original?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.errors import InputError

FEWEST = 20
MOST = 1000
# Kernel widths and bootstrap draws of the aggregated test.
WIDTHS, DRAWS = 5, 999

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
    u, r, o = _rows(unlearned, reference, original)
    gamma = 1 / (2 * _square_width(_distances(np.concatenate([u, r, o]))))
    difference, deviations = _statistic(u, r, o, gamma)
    error = float(np.linalg.norm(deviations))
    # The kernel's mean over different samples, within the two models and between them.
    grams = (_kernel(u, u, gamma), _kernel(r, r, gamma), _kernel(u, r, gamma))
    own, theirs, cross = (float((gram.sum() - np.trace(gram)) / (len(u) * (len(u) - 1))) for gram in grams)
    to_reference = own + theirs - 2 * cross
    z = difference / error if error > 1e-12 else math.copysign(math.inf, difference)
    if abs(difference) < 1e-12:
        z = 0.0
    p_reference, p_original = (math.erfc(side / math.sqrt(2)) / 2 for side in (-z, z))
    return ThreeSample(to_reference, to_reference - difference, error, p_reference, p_original, n=len(u))


def aggregated_three_sample(unlearned: np.ndarray, reference: np.ndarray, original: np.ndarray) -> float:
    """p-value against D >= 0 at `WIDTHS` kernel widths at once; small: closer to the reference.

    After Ribero, Schrab and Gretton (AISTATS 2026): a p-value for each width, evenly spaced from half the 5 % to twice the
    95 % quantile of the distances, and the rank of the least of them among the least ones under the null hypothesis.

    Args:
        unlearned: Rows of the unlearned model.
        reference: Rows of the reference, for the same samples.
        original: Rows of Original, for the same samples.
    """
    # Differs from the reference: google-research/f_divergence_tests has two-sample tests of f-divergences with permutations;
    # its relative test is not public. Here D is that of MMD, and the null distribution comes from normal multipliers of each
    # sample's part of D, because rows of one sample go together and cannot be exchanged.
    u, r, o = _rows(unlearned, reference, original)
    squares = _distances(np.concatenate([u, r, o]))
    squares[squares == 0] = _square_width(squares)
    low, high = np.sqrt(np.quantile(squares, (0.05, 0.95)))
    found = [_statistic(u, r, o, 1 / (2 * width**2)) for width in np.linspace(low / 2, 2 * high, WIDTHS)]
    observed = -np.array([difference for difference, _ in found])
    observed[np.abs(observed) < 1e-12] = 0.0
    multipliers = np.random.default_rng(0).standard_normal((len(u), DRAWS))
    null = np.stack([deviations for _, deviations in found]) @ multipliers
    both = np.concatenate([observed[:, None], null], axis=1)
    # A p-value falls with the number of the width's values that are smaller, for the observed one and for every draw.
    below = np.stack([np.searchsorted(np.sort(row), row) for row in both]).max(axis=0)
    return float((below >= below[0]).mean())


def _statistic(u: np.ndarray, r: np.ndarray, o: np.ndarray, gamma: float) -> tuple[float, np.ndarray]:
    """D, and the samples' parts of it less their mean, whose squares add up to the jackknife's variance of D."""
    n, cross_r, cross_o = len(u), _kernel(u, r, gamma), _kernel(u, o, gamma)
    pairs = _kernel(r, r, gamma) - _kernel(o, o, gamma)
    pairs += cross_o + cross_o.T - cross_r - cross_r.T
    np.fill_diagonal(pairs, 0.0)
    # The mean of the U-statistic's kernel h(w_i, w_j) over j, for every sample i; their mean is D.
    of_each = pairs.sum(axis=1) / (n - 1)
    return float(of_each.mean()), 2 * math.sqrt((n - 1) / n) / (n - 2) * (of_each - of_each.mean())


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


def _distances(rows: np.ndarray) -> np.ndarray:
    """The squared distance of every pair of rows; 0 where it is a rounding error between equal ones."""
    squares = _squares(rows, rows)[np.triu_indices(len(rows), 1)]
    squares[squares < 1e-12 * max(float((rows**2).sum(axis=1).max()), 1e-300)] = 0.0
    return np.asarray(squares)


def _square_width(squares: np.ndarray) -> float:
    """The median of squared distances; their mean where half of them are 0, and 1/2 where all are."""
    return float(np.median(squares)) or float(squares.mean()) or 0.5


def _kernel(x: np.ndarray, y: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * _squares(x, y))
