"""ID and IDI: how much more a model knows than the reference, as a share of what Original does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from residua.errors import InputError
from residua.explaining import NEARER, Explanation
from residua.readings import Curve

DRAWS = 2000
NORMAL = 20_000  # samples
LEVEL = 0.95

EXPLANATIONS = (
    Explanation(
        name="MI",
        title="Mutual information of block l",
        aliases=("information", "information curve"),
        box="white",
        unit="nats",
        definition=(
            "How much block l still tells about what was to be forgotten, in nats, read on unseen data."
        ),
        formula=(
            "I(Z_l; Y) >= E[log q(y | z) - log p(y)];  Y: forgotten or not (classes), the class (samples)"
        ),
        range="[0, H(Y)]",
        better=NEARER,
        ideal="The reference's.",
        blind="What the critic cannot find: it is a lower bound.",
        elsewhere="Information curve; InfoNCE in the paper.",
        source="The paper, section on IDI.",
        measures=("information",),
        parts="blocks",
    ),
    Explanation(
        name="ID",
        title="Information difference",
        box="white",
        unit="nats",
        definition="What the last blocks know more than the reference, in nats: the numerator of IDI.",
        formula="sum over blocks of I(Z_l; Y) - I_reference(Z_l; Y)",
        range="[-blocks x H(Y), blocks x H(Y)]",
        better="nearer 0",
        ideal="0: the reference.",
        blind="A sum: a block that knows less can hide one that knows more; see IDI.positive.",
        source="The paper.",
        measures=("information",),
        against=("original", "reference"),
    ),
    Explanation(
        name="IDI",
        title="Information difference index",
        box="white",
        unit="number",
        definition=(
            "What the last blocks know more than the reference, in units of what Original knows "
            "more. `.low` and `.high`: 95 %. `.positive`: the sum of the blocks above 0, so that none pays for "
            "another."
        ),
        formula="ID(model) / ID(Original);  ID = sum over blocks of I(Z_l; Y) - I_reference(Z_l; Y)",
        range="usually [-1, 1], unbounded",
        better="nearer 0",
        ideal="0: the reference. 1: Original. Below 0: over-unlearned.",
        blind=(
            "A ruined model has a low IDI too: look at RA and TA. Undetermined where Original "
            "hardly knows more than the reference."
        ),
        source="The paper.",
        measures=("information",),
        against=("original", "reference"),
    ),
)


@dataclass(frozen=True)
class IDI:
    """The Information Difference Index, or why there is none.

        ID(m) = sum over the last blocks l of  I_m(Z_l; Y) - I_reference(Z_l; Y)
        IDI   = ID(unlearned) / ID(original)

    1: it knows what Original knows; 0: what the reference knows; below 0: less than that.
    `interval` is at 95 %. `samples` and `restarts` are the standard errors that make it up: the
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
    def determined(self) -> bool:
        return self.value is not None

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
) -> IDI:
    """IDI from three curves: arithmetic on stored terms, nothing is fitted.

    `last` takes the last so many measured blocks (default: all that were measured), `family` another family of critics than
    the first. Every draw of the bootstrap resamples the same samples for the three models, because their terms go together.
    """
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    rows = [tuple(curve.terms([block], family) for curve, block in zip(curves, blocks, strict=True))
            for blocks in zip(*(_last(curve, last) for curve in curves), strict=True)]  # fmt: skip
    u, o, r = (np.sum([row[i] for row in rows], axis=0) for i in range(3))
    random = np.random.default_rng(seed)
    surplus = [(row[0] - row[2]).mean(0) for row in rows]  # of each block, by sample
    above, scale, *parts = _resampled([u.mean(0) - r.mean(0), o.mean(0) - r.mean(0), *surplus], random)
    noise = _restart_noise(u, o, r, random)
    id_u, id_o = float((u.mean(0) - r.mean(0)).mean()), float((o.mean(0) - r.mean(0)).mean())
    total_above, total_scale = (above, scale) if noise is None else (above + noise[0], scale + noise[1])
    id_o_interval = _percentiles(total_scale)
    if id_o_interval[0] <= 0:
        return IDI(
            None, None, id_u, id_o, id_o_interval, {}, None, None,
            reason=f"ID(original) is {id_o:.4f} nats with the interval {id_o_interval[0]:.4f} to "
            f"{id_o_interval[1]:.4f}: Original does not clearly know more than the reference",
        )  # fmt: skip
    blocks = _last(original, last)
    return IDI(
        value=id_u / id_o,
        interval=_percentiles(total_above / total_scale),
        id_unlearned=id_u,
        id_original=id_o,
        id_original_interval=id_o_interval,
        blocks={block: float(part.mean()) / id_o for block, part in zip(blocks, surplus, strict=True)},
        samples=float(np.std(above / scale)),
        restarts=None if noise is None else float(np.std((id_u + noise[0]) / (id_o + noise[1]))),
        block_intervals={
            block: _percentiles(part / scale) for block, part in zip(blocks, parts, strict=True)
        },
    )


@dataclass(frozen=True)
class Excess:
    """How much more a model knows of the samples to be forgotten than of test images, beyond the reference: a difference of differences.

        E(m) = I_m(forget) - I_m(test),   value = (E(unlearned) - E(reference)) / (E(original) - E(reference))

    A model that was trained on more data may know more of every image, forgotten or not. What it knows of forgotten samples
    beyond what it knows of unseen ones is memory. `nats` is the numerator; value and interval are None where the
    denominator is not clearly above zero.
    """

    value: float | None
    interval: tuple[float, float] | None
    nats: float
    original_nats: float


def excess(
    unlearned: Curve, *, original: Curve, reference: Curve, last: int | None = None, seed: int = 0
) -> Excess:
    """The difference of differences from three curves; forgotten samples and test images are resampled apart."""
    check_comparable(unlearned, original, reference)
    curves = (unlearned, original, reference)
    own = [curve.terms(_last(curve, last)) for curve in curves]
    test = [curve.terms(_last(curve, last), test=True) for curve in curves]
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
            name: idi(
                curve, original=curves[original], reference=curves[reference], last=last, family=family
            ).value
            for name, curve in curves.items()
        }
        ranks[family] = sorted(
            ((name, value) for name, value in values.items() if value is not None), key=lambda pair: pair[1]
        )
    return ranks


def check_comparable(*curves: Curve) -> None:
    """Curves of other settings or other data are refused, with what differs."""
    first = curves[0]
    for other in curves[1:]:
        for what in ("data", "images", "measure"):
            both = first.about.get(what), other.about.get(what)
            difference = "" if what == "images" and None in both else _difference(*both)  # 0.1.0 has none
            if difference:
                raise InputError(
                    f"two curves cannot be compared: their {what} differs ({difference}); "
                    "measure both models in the same way on the same task"
                )
        if other.arrays["terms"].shape != first.arrays["terms"].shape:
            raise InputError(
                "two curves cannot be compared: they have other blocks; measure the same blocks of both"
            )


def _difference(left: Any, right: Any) -> str:
    if left == right:
        return ""
    if isinstance(left, dict) and isinstance(right, dict):
        names = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
        return ", ".join(f"{name} {left.get(name)} and {right.get(name)}" for name in sorted(names))
    return "not the same samples and labels"


def _last(curve: Curve, last: int | None) -> list[int]:
    if last is not None and not 1 <= last <= len(curve.blocks):
        raise InputError(f"last is {last}, expected 1 to {len(curve.blocks)}: so many blocks were measured")
    return curve.blocks if last is None else curve.blocks[-last:]


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
    samples, together, draws = len(table), max(1, 1_000_000 // len(table)), np.empty((DRAWS, table.shape[1]))
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


def _percentiles(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
