"""Likeness of outputs, and witnesses: further findings that have to agree before a model is cleared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from residua.compare.accuracies import standard_error
from residua.compare.divergence import jsd
from residua.compare.references import chance
from residua.readings import Z95, Reading

# Prior standard deviations between retrained models: of UA, and of a rescaled attack on the encoder.
PRIOR_UA, PRIOR_WITNESS = 0.01, 0.08
# Divergences below this are rounding and sampling.
LEAST_JSD = 0.005


@dataclass(frozen=True)
class Likeness:
    """Are the answers on the forget set those of a retrained model? Being nearer to them than to Original's is not enough.

    `ua` is the error on the forget set, `expected` the references' mean. They may differ by `allowed`: half of the way to
    Original or the scatter of retrained models, and never more than the declared tolerance. `half` is the half-width of
    the gap's 95 % interval. `jsd` is the median divergence from the references, and may be `jsd_allowed`: so many times
    what a typical reference's is from the others, which one odd reference does not move; both are None with one reference.
    `perturbed` is the same of images with noise, and its own `perturbed` that of moved images.
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
    found = Likeness(unlearned, expected, min(max(most, half), tolerance), half, most)
    if outputs is None or len(outputs_of_references) < 2:
        return found
    mine = float(np.median([jsd(outputs["unlearned"], each) for each in outputs_of_references]))
    allowed = divergence * float(np.median(typical_distances(outputs_of_references))) + LEAST_JSD
    return replace(found, jsd=mine, jsd_allowed=allowed)


def typical_distances(outputs: Sequence[np.ndarray]) -> list[float]:
    """The lower median of each reference's divergences from the others: one odd among three leaves the others' alone."""
    between: list[list[float]] = [[] for _ in outputs]
    for i, j in combinations(range(len(outputs)), 2):
        distance = jsd(outputs[i], outputs[j])
        between[i].append(distance)
        between[j].append(distance)
    return [float(np.quantile(each, 0.5, method="lower")) for each in between]


@dataclass(frozen=True)
class Caveat:
    """A finding about the models or the references that the first line of a verdict names; `bars` keeps FORGOTTEN away."""

    text: str
    bars: bool = False


def odd_references(
    accuracies: Mapping[str, Sequence[float]],
    outputs: Sequence[np.ndarray] = (),
    left_out: Sequence[float] = (),
    *,
    tolerance: float,
    most: float,
    divergence: float,
) -> list[tuple[int, str]]:
    """References that differ from the others, by their place, with the difference; of two, neither can be called odd.

    Args:
        accuracies: One accuracy per reference, by the name of the metric.
        outputs: Log-probabilities of each reference on the forget set.
        left_out: IDI of each reference against the mean of the others.
        tolerance: Largest IDI.
        most: Largest distance of an accuracy from the median of the others.
        divergence: Largest divergence from the others, in units of a typical reference's.
    """
    found = []
    for name, values in accuracies.items():
        for i, value in enumerate(values if len(values) > 2 else ()):
            others = float(np.median(np.delete(values, i)))
            if abs(value - others) > most:
                found.append((i, f"{name} {100 * value:.1f} %, the others' {100 * others:.1f} %"))
    if len(outputs) > 2:
        distances = typical_distances(outputs)
        allowed = divergence * float(np.median(distances)) + LEAST_JSD
        for i, distance in enumerate(distances):
            if distance > allowed:
                found.append((i, f"JSD {distance:.3f} from the others, limit {allowed:.3f}"))
    for i, value in enumerate(left_out if len(left_out) > 2 else ()):
        if abs(value) > tolerance:
            found.append((i, f"IDI {value:.2f} against the others"))
    return found


@dataclass(frozen=True)
class Witness:
    """Result of an attack on the encoder, rescaled: 0 is the references' mean, 1 is Original.

    It cannot accuse alone. Where its whole interval is above the tolerance, it contradicts a model that would pass. A
    witness whose half-width exceeds the tolerance was not assessed: it could contradict next to nothing.
    """

    name: str
    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def contradicts(self, tolerance: float) -> bool:
        return self.low > tolerance

    def assessed(self, tolerance: float) -> bool:
        return self.half <= tolerance or self.contradicts(tolerance)

    def power(self, tolerance: float) -> float:
        """The least value that would have contradicted, at this half-width."""
        return tolerance + self.half


def witness(
    name: str, unlearned: float, *, original: float, references: Sequence[float], n: int, errors: Sequence[float] = ()
) -> Witness | None:
    """From accuracies on n samples; None where Original's is not clearly above the references', so that it tells nothing.

    `errors` are further standard errors, of the model's and of the references' mean: those of an attack's own draws.
    """
    expected = float(np.mean(references))
    gain = original - expected
    error = math.sqrt(sum(standard_error(share, n) ** 2 for share in (unlearned, expected)) + sum(e**2 for e in errors))
    if gain <= Z95 * math.hypot(standard_error(original, n), standard_error(expected, n)):
        return None
    value, error = (unlearned - expected) / gain, error / gain
    half = Z95 * error
    if len(references) > 1:
        known = chance([(each - expected) / gain for each in references], PRIOR_WITNESS)
        half = known.quantile(0.975) * known.error(error)
    return Witness(name, value, value - half, value + half)


# Channels that never vary beyond the references' fraction, and differences between ways of asking beyond rounding.
MORE_DEAD, ROUNDING, TIMES = 0.05, 1e-3, 10.0


def structure_caveats(
    unlearned: Reading, original: Reading, references: Sequence[Reading], allowed: str
) -> list[Caveat]:
    """Caveats that follow from the make of the models, from readings of `measure.Structure`.

    Args:
        unlearned: Reading of the audited model.
        original: Reading of the model before unlearning.
        references: Readings of the references.
        allowed: Reason why the structure may be another than Original's; empty if it may not.
    """
    found = []
    if not np.array_equal(unlearned.arrays["digest"], original.arrays["digest"]):
        why = f", allowed because: {allowed}" if allowed else " (--allow-structure REASON admits that)"
        found.append(Caveat(f"Its structure is not Original's{why}", bars=not allowed))
    theirs = [original, *references]
    if own := int(unlearned.arrays["own_code"][0]):
        layers = f"{own} of its modules are" if own > 1 else "One of its modules is"
        found.append(Caveat(f"{layers} code of its owner's, so names of layers and their count show nothing"))
    dead, most = unlearned.values["dead"], max(each.values["dead"] for each in theirs)
    if dead - most > MORE_DEAD:
        shares = f"{100 * dead:.1f} % of its channels never vary, at most {100 * most:.1f} % of the others'"
        found.append(Caveat(f"{shares}: something may be switched off", bars=True))
    apart, usual = unlearned.values["inconsistency"], max(each.values["inconsistency"] for each in theirs)
    if apart > max(ROUNDING, TIMES * usual):
        found.append(
            Caveat(
                f"Its answers depend on how it is asked (differences of {apart:.2g}, the others' {usual:.2g})",
                bars=True,
            )
        )
    for name, words in (("linear", "is a linear map of the one before"), ("weightless", "has no weights")):
        blocks = np.flatnonzero(original.arrays[name]) + 1
        found += [Caveat(f"Block {block} {words}, so its reading adds nothing") for block in blocks]
    if original.arrays["headless"][0]:
        found.append(Caveat("The last block gives the logits, so IDI reads answers; cut before them"))
    return found
