"""Likeness of outputs, and witnesses: further findings that have to agree before a model is cleared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from residua.compare.divergence import jsd
from residua.compare.references import chance
from residua.readings import Z95

# Prior standard deviations between retrained models: of UA, and of a rescaled attack on the encoder.
PRIOR_UA, PRIOR_WITNESS = 0.01, 0.08
# Divergences below this are rounding and sampling.
LEAST_JSD = 0.005


@dataclass(frozen=True)
class Likeness:
    """Are the answers on the forget set those of a retrained model? Being nearer to them than to Original's is not enough.

    `ua` is the error on the forget set, `expected` the references' mean. They may differ by `allowed`: a
    tolerance, never more than half of the way to Original, or the scatter of retrained models. `half` is the half-width of
    the gap's 95 % interval. `jsd` is the mean divergence from the references, and may be `jsd_allowed`: so many times what
    a reference's is from the others; both are None with one reference. `perturbed` is the same of slightly changed images.
    """

    ua: float
    expected: float
    allowed: float
    half: float
    tolerance: float
    jsd: float | None = None
    jsd_allowed: float | None = None
    perturbed: Likeness | None = None

    @property
    def like(self) -> bool:
        close = self.jsd is None or self.jsd_allowed is None or self.jsd <= self.jsd_allowed
        steady = self.perturbed is None or self.perturbed.like
        return abs(self.ua - self.expected) <= self.allowed and close and steady

    @property
    def answers(self) -> bool:
        """It clearly still gives answers on the forget set that a retrained model would not."""
        unsteady = self.perturbed is not None and self.perturbed.answers
        return self.expected - self.ua - self.half > self.tolerance or unsteady


def likeness(
    unlearned: float,
    *,
    original: float,
    references: Sequence[float],
    n: int,
    tolerance: float,
    divergence: float,
    outputs: Mapping[str, np.ndarray] | None = None,
    outputs_of_references: Sequence[np.ndarray] = (),
) -> Likeness:
    """From UA on n forgotten samples and, with several references, log-probabilities (`outputs["unlearned"]`)."""
    expected = float(np.mean(references))
    most = min(tolerance, abs(expected - original) / 2)
    if len(references) > 1:
        known = chance(references, PRIOR_UA)
        half = known.quantile(0.975) * known.error()
    else:
        p = (expected * n + 1) / (n + 2)
        half = Z95 * math.sqrt(2 * p * (1 - p) / n)
    found = Likeness(unlearned, expected, max(most, half), half, most)
    if outputs is None or len(outputs_of_references) < 2:
        return found
    mine = float(np.mean([jsd(outputs["unlearned"], each) for each in outputs_of_references]))
    between: list[list[float]] = [[] for _ in outputs_of_references]
    for i, j in combinations(range(len(outputs_of_references)), 2):
        distance = jsd(outputs_of_references[i], outputs_of_references[j])
        between[i].append(distance)
        between[j].append(distance)
    allowed = divergence * max(float(np.mean(each)) for each in between) + LEAST_JSD
    return Likeness(unlearned, expected, max(most, half), half, most, mine, allowed)


@dataclass(frozen=True)
class Witness:
    """Result of an attack on the encoder, rescaled: 0 is the references' mean, 1 is Original.

    It cannot accuse alone. Where its whole interval is above the tolerance, it contradicts a model that would pass.
    """

    name: str
    value: float
    low: float
    high: float

    def contradicts(self, tolerance: float) -> bool:
        return self.low > tolerance


def witness(
    name: str,
    unlearned: float,
    *,
    original: float,
    references: Sequence[float],
    n: int,
    errors: Sequence[float] = (),
) -> Witness | None:
    """From accuracies on n samples; None where Original's is not clearly above the references', so that it tells nothing.

    `errors` are further standard errors, of the model's and of the references' mean: those of an attack's own draws.
    """
    expected = float(np.mean(references))
    gain = original - expected
    error = math.sqrt(sum(_variance(share, n) for share in (unlearned, expected)) + sum(e**2 for e in errors))
    if gain <= Z95 * math.sqrt(_variance(original, n) + _variance(expected, n)):
        return None
    value, error = (unlearned - expected) / gain, error / gain
    half = Z95 * error
    if len(references) > 1:
        known = chance([(each - expected) / gain for each in references], PRIOR_WITNESS)
        half = known.quantile(0.975) * known.error(error)
    return Witness(name, value, value - half, value + half)


def _variance(share: float, n: int) -> float:
    """Variance of a fraction of n samples, with one success and one failure added, so that 0 and 1 are not certain."""
    p = (share * n + 1) / (n + 2)
    return p * (1 - p) / n
