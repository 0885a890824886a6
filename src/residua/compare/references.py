"""Several references: the variance between retrained models, and the resolution of an audit that it leaves.

One retrained model does not show its own variance. With k of them zero is their mean curve, and their scatter is
the distance at which a model that never saw the data may be. A further retrained model is one more draw from the same
distribution, so the interval is that of a prediction:

    IDI +- t(nu) * sqrt( spread^2 (1 + 1/k) - sampling of references + sampling of this model )

Three references leave two degrees of freedom, and t = 4.3 would make the audit useless. Blocks and families do not
help: they rise and fall together. So the variance is moderated, as is usual for many small experiments: it is pooled
with that of retrained models elsewhere, with the weight of PRIOR_DEGREES further references. What they have in common
elsewhere is the variance of training, PRIOR_SPREAD; the sampling error depends on the data and is known, so it is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from residua.compare.information import IDI, LEVEL, check_comparable, idi
from residua.errors import InputError
from residua.readings import Z95, Curve

# Standard deviation of a retrained model's IDI beyond the sampling error: 0.04 on the embedded data, at most that on
# CIFAR-10. docs/verdict.md has what follows from it.
PRIOR_SPREAD = 0.04
PRIOR_DEGREES = 2
# No more references than this are recommended to anybody.
MOST_REFERENCES = 20


@dataclass(frozen=True)
class Chance:
    """Variance between retrained models, in the unit of the values that it was estimated from.

    `measured` is the plain standard deviation of the references, `spread` the one that is used, with `degrees` of
    freedom. `left_out` is each reference against the mean of the others.
    """

    references: int
    spread: float
    measured: float
    degrees: int
    left_out: tuple[float, ...]

    def error(self, sampling: float = 0.0, sampling_of_references: float = 0.0) -> float:
        """The standard error of a model's distance from the mean of the references."""
        training = self.spread**2 * (1 + 1 / self.references) - sampling_of_references**2
        return math.sqrt(max(training, 0.0) + sampling**2)

    def quantile(self, share: float) -> float:
        """The quantile of Student's t with these degrees of freedom; `share` is its probability."""
        from scipy.special import stdtrit  # takes a while to import, and looking things up does without

        return float(stdtrit(self.degrees, share))

    def with_references(self, k: int) -> Chance:
        """The same variance, as k references would show it."""
        return replace(self, references=k, degrees=k - 1 + PRIOR_DEGREES)


def chance(values: Sequence[float], prior: float = PRIOR_SPREAD, sampling: float = 0.0) -> Chance:
    """The variance between at least two references, from their values, moderated by the prior.

    Args:
        values: One value per reference.
        prior: Standard deviation that is expected between references, in the unit of the values.
        sampling: Sampling error of one reference against the mean of the others, which the values contain.
    """
    k = len(values)
    if k < 2:
        raise InputError("one reference does not show how much retrainings differ; give two or more")
    x = np.asarray(values, float)
    # The sample variance, pooled with the prior variance by degrees of freedom.
    measured = float(x.std(ddof=1))
    degrees = k - 1 + PRIOR_DEGREES
    expected = prior**2 + sampling**2 * (k - 1) / k
    spread = math.sqrt(((k - 1) * measured**2 + PRIOR_DEGREES * expected) / degrees)
    # The distance of each value from the mean of the others is k / (k - 1) times that from the mean of all.
    return Chance(k, spread, measured, degrees, tuple(((x - x.mean()) * k / (k - 1)).tolist()))


@dataclass(frozen=True)
class Part:
    """One reading of the inside: a block, a family of critics, or other images.

    A part fails where it is clearly above 0 and not within the margin; unseen images (`two_sided`) also where they are
    clearly below. The whole IDI has to be within the margin, so parts need not be once more, which would fail retrained
    models for their number; a part that could hardly fail is named.
    """

    value: float
    low: float
    high: float
    margin: float
    two_sided: bool = False

    @property
    def powerful(self) -> bool:
        return (self.high - self.low) / 2 < self.margin

    @property
    def inside(self) -> bool:
        return self.limit() < self.margin

    def limit(self, factor: float = 1.0) -> float:
        """The least margin at which it passes if the half-width were `factor` times as large."""
        half = factor * (self.high - self.low) / 2
        distance = abs(self.value) if self.two_sided else self.value
        return distance + half if distance > half else 0.0


@dataclass(frozen=True)
class Inside:
    """The information in the blocks, against one reference or several.

    `tolerance` is declared before, and the whole interval has to be within it: noise never helps a model to pass.
    `half` is the half-width. `resolution` is the least IDI that passes with probability 0.05 at most; None with one
    reference. `place` is the model's place among itself and the references, from the one that knows most; `p` is the
    exact probability of that place or a higher one if the model were one of them. `unit` is Original's surplus on
    unseen images, as a fraction of that on the audited ones, with its 95 % interval. `notes` are what the curves warn of.
    """

    idi: IDI
    references: int = 1
    tolerance: float = 0.5
    half: float = 0.0
    chance: Chance | None = None
    resolution: float | None = None
    place: int | None = None
    p: float | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    unit: tuple[float, float, float] | None = None
    notes: tuple[str, ...] = ()
    # Only in the committed reports on controls, whose rules widened the tolerance to this; goes when they are made anew.
    margin: float | None = None

    @property
    def low(self) -> float | None:
        return None if self.idi.interval is None else self.idi.interval[0]

    @property
    def high(self) -> float | None:
        return None if self.idi.interval is None else self.idi.interval[1]

    @property
    def knows_more(self) -> bool:
        """Above the tolerance; a surplus in one block is not paid for by a deficit in another."""
        if self.low is None or self.idi.value is None:
            return False
        surplus = max((self.idi.positive or self.idi.value) - self.idi.value, 0.0)
        others = (self.parts[name].low for name in (UNSEEN, MOVED) if name in self.parts)
        return self.low + surplus > self.tolerance or any(low > self.tolerance for low in others)

    @property
    def knows_less(self) -> bool:
        return self.high is not None and self.high < -self.tolerance and not self.outside

    @property
    def outside(self) -> list[str]:
        """The parts that keep it from passing."""
        return [name for name, part in self.parts.items() if not part.inside]

    @property
    def passes(self) -> bool:
        low, high = self.idi.interval or (-math.inf, math.inf)
        return -self.tolerance < low and high < self.tolerance and not self.outside

    @property
    def clears_at(self) -> float | None:
        """The tolerance above which this audit would have passed the model; None without an interval."""
        return self._clears_at(1.0)

    def _clears_at(self, factor: float) -> float | None:
        """The same if all half-widths were `factor` times as large."""
        if self.idi.value is None or self.low is None or self.high is None:
            return None
        half = factor * max(self.high - self.idi.value, self.idi.value - self.low)
        return max(abs(self.idi.value) + half, *(part.limit(factor) for part in self.parts.values()), 0.0)

    @property
    def enough(self) -> int | None:
        """The number of references with which this model would pass if IDI and spread stayed; None if none would do."""
        if self.chance is None or self.idi.value is None or not self.half:
            return None
        # What is not the spread in the variance of the error: sampling and restarts.
        own = (self.half / self.chance.quantile(0.975)) ** 2 - self.chance.error() ** 2
        for k in range(self.references + 1, MOST_REFERENCES + 1):
            known = self.chance.with_references(k)
            half = known.quantile(0.975) * math.sqrt(max(known.error() ** 2 + own, 0.0))
            if (self._clears_at(half / self.half) or math.inf) < self.tolerance:
                return k
        return None


UNSEEN, MOVED = "unseen images", "moved images"
POSITIVE = "sum of the blocks above 0"


def inside(
    unlearned: Curve,
    *,
    original: Curve,
    references: Sequence[Curve],
    tolerance: float,
    unseen: bool = True,
    confidence: float = LEVEL,
) -> Inside:
    """IDI against the mean of the references, with everything that has to be within the margin.

    This is arithmetic on stored terms; nothing is fitted.

    Args:
        unlearned: Curve of the audited model.
        original: Curve of the model before unlearning.
        references: Curves of models that were retrained without the forgotten data, one or more.
        tolerance: The IDI that is tolerated, declared beforehand.
        unseen: Also read test images, which an audited model cannot have been prepared for; for class-wise forgetting.
        confidence: Confidence level of the intervals.
    """
    check_comparable(unlearned, original, *references)
    zero = mean_curve(references)
    index = idi(unlearned, original=original, reference=zero, level=confidence)
    if index.value is None or index.interval is None or index.samples is None:
        return Inside(index, len(references), tolerance)
    four = (unlearned, original, list(references))
    family = original.families[0]
    whole = _Rows(*(_rows(four, original.blocks, family)))
    if len(references) == 1:
        half = (index.interval[1] - index.interval[0]) / 2
        plain = dict(_parts(four, index, half, tolerance, unseen, confidence))
        return Inside(index, 1, tolerance, half, parts=plain, unit=_unit(four) if unseen else None)
    # A prediction interval for one more retrained model: variance between references, sampling error, restarts.
    known = chance(whole.references, sampling=whole.errors_of_references)
    error = known.error(index.samples, whole.errors_of_references)
    error = math.hypot(error, index.restarts or 0.0)
    half = known.quantile((1 + confidence) / 2) * error
    # The rank gives an exact p-value.
    place = 1 + sum(value >= index.value for value in whole.references)
    return Inside(
        idi=replace(index, interval=(index.value - half, index.value + half)),
        references=len(references),
        tolerance=tolerance,
        half=half,
        chance=known,
        resolution=tolerance - half + known.quantile(0.95) * error,
        place=place,
        p=place / (len(references) + 1),
        parts=dict(_parts(four, index, half, tolerance, unseen, confidence)),
        unit=_unit(four) if unseen else None,
    )


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The curve whose every term is the mean of the curves'."""
    first = curves[0]
    if len(curves) == 1:
        return first
    arrays = dict(first.arrays)
    for name in ("terms", "test_terms"):
        if all(name in curve.arrays for curve in curves):
            arrays[name] = np.mean([curve.arrays[name].astype(np.float64) for curve in curves], axis=0)
    names = [name for name in first.values if all(name in curve.values for curve in curves)]
    values = {name: float(np.mean([curve.values[name] for curve in curves])) for name in names}
    return Curve(values, arrays, first.about)


Four = tuple[Curve, Curve, list[Curve]]


class _Rows:
    """Values and sampling errors, in units of what Original knows beyond the mean of the references.

    `u` and each row of `r` are the terms (n) of a part; `scale` is Original's terms minus the references' mean.
    """

    def __init__(self, u: np.ndarray, r: np.ndarray, scale: np.ndarray) -> None:
        # The model's distance from the references' mean, as a fraction of Original's distance.
        self.scale = float(scale.mean())
        zero = r.mean(axis=0)
        self.value, self.error = _share(u - zero, scale)
        self.references = [float((each - zero).mean()) / self.scale for each in r]
        # The sampling error of one reference against the mean of the others, as a root mean square: left out, a
        # reference is k / (k - 1) times as far from the mean, which is the distance of a further model.
        k = len(r)
        errors = [_share((each - zero) * k / (k - 1), scale)[1] for each in r] if k > 1 else [0.0]
        self.errors_of_references = float(np.sqrt(np.mean(np.square(errors))))


def _share(surplus: np.ndarray, scale: np.ndarray) -> tuple[float, float]:
    """mean(surplus) / mean(scale) and its standard error over samples."""
    value = float(surplus.mean() / scale.mean())
    error = float((surplus - value * scale).std(ddof=1) / math.sqrt(len(scale)) / abs(scale.mean()))
    return value, error


def _rows(
    four: Four, blocks: Sequence[int], family: str | None, test: bool = False, all_blocks: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Terms of the model and of each reference over these blocks, and the scale over all blocks."""
    unlearned, original, references = four

    def terms(curve: Curve, which: Sequence[int]) -> np.ndarray:
        # Networks of another depth count their blocks otherwise: it is the place among those measured that counts.
        own = [curve.blocks[original.blocks.index(block)] for block in which]
        return curve.terms(own, family, test=test).mean(axis=0)

    u, r = terms(unlearned, blocks), np.stack([terms(each, blocks) for each in references])
    whole = all_blocks or blocks
    scale = terms(original, whole) - np.mean([terms(each, whole) for each in references], axis=0)
    return u, r, scale


def _parts(
    four: Four, index: IDI, half: float, tolerance: float, unseen: bool, confidence: float
) -> Iterator[tuple[str, Part]]:
    """Blocks, families and unseen images, and the sum of what is above 0."""
    original = four[1]
    families, blocks = original.families, original.blocks
    wanted: list[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray], bool]] = []
    if len(blocks) > 1:
        wanted += [(f"block {block}", _rows(four, [block], families[0], all_blocks=blocks), False) for block in blocks]
        positive = index.positive or 0.0
        yield POSITIVE, Part(positive, positive - half, positive + half, tolerance)
    wanted += [(f"{family} critics", _rows(four, blocks, family), False) for family in families[1:]]
    if unseen and all("test_terms" in curve.arrays for curve in (four[0], original, *four[2])):
        wanted.append((UNSEEN, _rows(four, blocks, families[0], test=True), True))
    for name, (u, r, scale), two_sided in wanted:
        if scale.mean() <= Z95 * scale.std(ddof=1) / math.sqrt(len(scale)):
            continue  # critics that do not distinguish Original from the references cannot judge other models
        # The half-width of this part's own interval, and the margin that it allows.
        rows = _Rows(u, r, scale)
        own = NormalDist().inv_cdf((1 + confidence) / 2) * rows.error
        if len(r) > 1:
            known = chance(rows.references, sampling=rows.errors_of_references)
            own = known.quantile((1 + confidence) / 2) * known.error(rows.error, rows.errors_of_references)
        yield name, Part(rows.value, rows.value - own, rows.value + own, tolerance, two_sided)


def _unit(four: Four) -> tuple[float, float, float] | None:
    """Original's surplus on unseen images over that on the audited ones, with a 95 % interval; None without both."""
    if any("test_terms" not in curve.arrays for curve in (four[0], four[1], *four[2])):
        return None
    own, other = (_rows(four, four[1].blocks, None, test=test)[2] for test in (False, True))
    # The two are independent samples; the delta method gives the error of their ratio.
    scale, ratio = own.mean(), other.mean() / own.mean()
    errors = [each.std(ddof=1) / math.sqrt(len(each)) / scale for each in (other, own)]
    half = Z95 * math.hypot(errors[0], ratio * errors[1])
    return float(ratio), float(ratio - half), float(ratio + half)
