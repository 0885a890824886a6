"""ID and IDI: information that a model holds beyond the reference, as a fraction of what Original holds beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from residua.errors import InputError
from residua.readings import Z95, Curve

DRAWS = 2000
NORMAL = 20_000  # samples
LEVEL = 0.95


@dataclass(frozen=True)
class IDI:
    """The Information Difference Index, or why there is none.

        ID(m) = sum over the last blocks l of  I_m(Z_l; Y) - I_reference(Z_l; Y)
        IDI   = ID(unlearned) / ID(original)

    1: it knows what Original knows; 0: what the reference knows; below 0: less than that.
    `interval` is at 95 % if nothing else was asked for. `samples` and `restarts` are the standard errors that make it up: the
    finite number of samples, and the chance in fitting critics (None when there was one restart, and
    then the interval leaves it out). If ID(original) is not clearly above zero there is no scale to
    measure on: `value` and `interval` are None and `reason` says so.

    `blocks` are the shares of single blocks, which add up to the value, with `block_intervals`. `positive` is the sum
    of those above 0: no block pays for another. `largest` is the block with the largest share.
    """

    value: float | None
    interval: tuple[float, float] | None
    id_unlearned: float
    id_original: float
    id_original_interval: tuple[float, float]
    blocks: dict[int, float]
    samples: float | None
    restarts: float | None
    reason: str = ""
    block_intervals: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def positive(self) -> float | None:
        return sum(max(share, 0.0) for share in self.blocks.values()) if self.blocks else None

    @property
    def largest(self) -> int | None:
        return max(self.blocks, key=lambda block: self.blocks[block]) if self.blocks else None


def idi(
    unlearned: Curve,
    *,
    original: Curve,
    reference: Curve,
    last: int | None = None,
    family: str | None = None,
    seed: int = 0,
    level: float = LEVEL,
) -> IDI:
    """IDI from three curves: arithmetic on stored terms, nothing is fitted.

    Every draw of the bootstrap resamples the same samples for the three models, because their terms are paired.

    Args:
        unlearned: Curve of the audited model.
        original: Curve of the model before unlearning.
        reference: Curve of a model that was retrained without the forgotten data.
        last: Use only this many of the last measured blocks; by default all.
        family: Family of critics; by default the first one of the curves.
        seed: Seed of the bootstrap.
        level: Confidence level of the intervals.
    """
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    rows = [tuple(curve.terms([block], family) for curve, block in zip(curves, blocks, strict=True))
            for blocks in zip(*(last_blocks(curve, last) for curve in curves), strict=True)]  # fmt: skip
    # Terms (restarts, n) of the three models, summed over blocks, and bootstrap draws of their differences.
    u, o, r = (np.sum([row[i] for row in rows], axis=0) for i in range(3))
    random = np.random.default_rng(seed)
    surplus = [(row[0] - row[2]).mean(0) for row in rows]  # of each block, by sample
    above, scale, *parts = _resampled([u.mean(0) - r.mean(0), o.mean(0) - r.mean(0), *surplus], random)
    noise = _restart_noise(u, o, r, random)
    id_u, id_o = float((u.mean(0) - r.mean(0)).mean()), float((o.mean(0) - r.mean(0)).mean())
    total_above, total_scale = (above, scale) if noise is None else (above + noise[0], scale + noise[1])
    id_o_interval = _percentiles(total_scale, level)
    if id_o_interval[0] <= 0:
        return IDI(
            None, None, id_u, id_o, id_o_interval, {}, None, None,
            reason=f"ID(original) is {id_o:.4f} nats with the interval {id_o_interval[0]:.4f} to "
            f"{id_o_interval[1]:.4f}: Original does not clearly know more than the reference",
        )  # fmt: skip
    blocks = last_blocks(original, last)
    return IDI(
        value=id_u / id_o,
        interval=_percentiles(total_above / total_scale, level),
        id_unlearned=id_u,
        id_original=id_o,
        id_original_interval=id_o_interval,
        blocks={block: float(part.mean()) / id_o for block, part in zip(blocks, surplus, strict=True)},
        samples=float(np.std(above / scale)),
        restarts=None if noise is None else float(np.std((id_u + noise[0]) / (id_o + noise[1]))),
        block_intervals={block: _percentiles(part / scale, level) for block, part in zip(blocks, parts, strict=True)},
    )


@dataclass(frozen=True)
class Excess:
    """Information about the forgotten samples beyond that about test images, beyond the reference: a difference of differences.

        E(m) = I_m(forget) - I_m(test),   value = (E(unlearned) - E(reference)) / (E(original) - E(reference))

    A model that was trained on more data may know more of every image, forgotten or not. What it knows of forgotten samples
    beyond unseen ones is memory. `nats` is the numerator; value and interval are None where the
    denominator is not clearly above zero.
    """

    value: float | None
    interval: tuple[float, float] | None
    nats: float
    original_nats: float


def excess(unlearned: Curve, *, original: Curve, reference: Curve, last: int | None = None, seed: int = 0) -> Excess:
    """The difference of differences from three curves; forgotten samples and test images are resampled separately.

    The arguments are those of `idi`.
    """
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    own = [curve.terms(last_blocks(curve, last)) for curve in curves]
    test = [curve.terms(last_blocks(curve, last), test=True) for curve in curves]
    random = np.random.default_rng(seed)
    (own_above, own_scale), (test_above, test_scale) = (
        _resampled([u.mean(0) - r.mean(0), o.mean(0) - r.mean(0)], random) for u, o, r in (own, test)
    )
    above, scale = own_above - test_above, own_scale - test_scale
    means = [float(x.mean() - y.mean()) for x, y in zip(own, test, strict=True)]
    nats, original_nats = means[0] - means[2], means[1] - means[2]
    if _percentiles(scale)[0] <= 0:
        return Excess(None, None, nats, original_nats)
    return Excess(nats / original_nats, _percentiles(above / scale), nats, original_nats)


def order(
    curves: Mapping[str, Curve], *, original: str, reference: str, last: int | None = None
) -> dict[str, list[tuple[str, float]]]:
    """For each family of critics, the models from the least IDI to the largest."""
    families = curves[original].families
    ranks: dict[str, list[tuple[str, float]]] = {}
    for family in families:
        values = {
            name: idi(curve, original=curves[original], reference=curves[reference], last=last, family=family).value
            for name, curve in curves.items()
        }
        ranks[family] = sorted(
            ((name, value) for name, value in values.items() if value is not None), key=lambda pair: pair[1]
        )
    return ranks


def check_comparable(*curves: Curve) -> None:
    """Refuse curves of different settings or data, with the difference."""
    first = curves[0]
    for other in curves[1:]:
        for what in ("data", "images", "measure"):
            left, right = first.about.get(what), other.about.get(what)
            if left == right or (what == "images" and None in (left, right)):  # records of 0.1.0 have none
                continue
            difference = "not the same samples and labels"
            if isinstance(left, dict) and isinstance(right, dict):
                names = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
                difference = ", ".join(f"{name} {left.get(name)} and {right.get(name)}" for name in sorted(names))
            if difference:
                raise InputError(
                    f"two curves cannot be compared: their {what} differs ({difference}); "
                    "measure both models in the same way on the same task"
                )
        if other.arrays["terms"].shape != first.arrays["terms"].shape:
            raise InputError("two curves cannot be compared: they have other blocks; measure the same blocks of both")


def _resampled(columns: Sequence[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
    """Bootstrap draws of the mean of each column, from the same samples in each draw.

    Of very many samples the means are normal, with the covariance of the samples over their number; drawing them
    at once takes milliseconds where resampling takes long.
    """
    table = np.stack(columns, axis=1)
    if len(table) > NORMAL:
        covariance = np.atleast_2d(np.cov(table.T)) / len(table)
        return list(random.multivariate_normal(table.mean(axis=0), covariance, DRAWS, method="eigh").T)
    # How often each sample was drawn, times the table: quicker by far than gathering the rows of every draw.
    samples, together, draws = len(table), 1_000_000 // len(table), np.empty((DRAWS, table.shape[1]))
    for start in range(0, DRAWS, together):
        drawn = random.integers(0, samples, (min(together, DRAWS - start), samples))
        drawn += samples * np.arange(len(drawn))[:, None]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        draws[start : start + together] = counts @ table / samples
    return list(draws.T)


def _restart_noise(
    u: np.ndarray, o: np.ndarray, r: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Draws of what refitting the critics would add to ID(unlearned) and to ID(original).

    Models with the same terms share their critics, so their chance is one and the same: the IDI of
    Original is 1 without any doubt.
    """
    restarts = len(u)
    if restarts < 2:
        return None
    draws: list[np.ndarray] = []
    for i, terms in enumerate((u, o, r)):
        same = [j for j in range(i) if np.array_equal((u, o, r)[j], terms)]
        error = terms.mean(axis=1).std(ddof=1) / np.sqrt(restarts)
        draws.append(draws[same[0]] if same else random.normal(0.0, 1.0, DRAWS) * error)
    return draws[0] - draws[2], draws[1] - draws[2]


def _percentiles(draws: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def idi_value(
    unlearned: Curve, *, original: Curve, reference: Curve, last: int | None = None, family: str | None = None
) -> float | None:
    """The value of `idi` without its interval, for tables of many; None where ID(original) is not clearly above zero.

    `idi` decides that by resampling; here it takes 1.96 standard errors of the mean over samples, which takes no time.
    Curves of other settings or data are refused.
    """
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    u, o, r = (curve.terms(last_blocks(curve, last), family).mean(axis=0) for curve in curves)
    scale = o - r
    if scale.mean() <= Z95 * scale.std(ddof=1) / math.sqrt(len(scale)):
        return None
    return float((u - r).mean() / scale.mean())


def last_blocks(curve: Curve, last: int | None) -> list[int]:
    """The last `last` blocks that were measured; all by default."""
    if last is not None and not 1 <= last <= len(curve.blocks):
        raise InputError(f"last is {last}, expected 1 to {len(curve.blocks)}: so many blocks were measured")
    return curve.blocks if last is None else curve.blocks[-last:]


def spearman(left: Mapping[str, float], right: Mapping[str, float]) -> tuple[float, int] | None:
    """Rank correlation over the names that both have, and their number; None for fewer than three, or no variation."""
    both = [name for name in left if name in right]
    x, y = (np.array([of[name] for name in both]) for of in (left, right))
    if len(both) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy.stats import spearmanr  # takes a while to import

    return float(spearmanr(x, y).statistic), len(both)


def ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Ranks from 1, the least value; ties keep their order."""
    order: Sequence[str] = sorted(values, key=lambda name: values[name])
    return {name: place for place, name in enumerate(order, start=1)}
