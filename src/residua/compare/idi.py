"""ID and IDI: how much more a model knows than the reference, as a share of what Original does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.curve import Curve
from residua.errors import InputError

DRAWS = 2000
LEVEL = 0.95


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

    @property
    def determined(self) -> bool:
        return self.value is not None


def idi(
    unlearned: Curve, *, original: Curve, reference: Curve, last: int | None = None, seed: int = 0
) -> IDI:
    """IDI from three curves: arithmetic on stored terms, nothing is fitted.

    `last` takes the last so many measured blocks (default: all that were measured). Every draw of the
    bootstrap resamples the same samples for the three models, because their terms go together.
    """
    check_comparable(unlearned, original, reference)
    blocks = _last(original, last)
    u, o, r = (curve.terms(_last(curve, last)) for curve in (unlearned, original, reference))
    random = np.random.default_rng(seed)
    above, scale = _resampled(u, o, r, random)
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
    shares = {
        block: float((unlearned.terms([mine]) - reference.terms([theirs])).mean()) / id_o
        for block, mine, theirs in zip(blocks, _last(unlearned, last), _last(reference, last), strict=True)
    }
    return IDI(
        value=id_u / id_o,
        interval=_percentiles(total_above / total_scale),
        id_unlearned=id_u,
        id_original=id_o,
        id_original_interval=id_o_interval,
        blocks=shares,
        samples=float(np.std(above / scale)),
        restarts=None if noise is None else float(np.std((id_u + noise[0]) / (id_o + noise[1]))),
    )


def check_comparable(*curves: Curve) -> None:
    """Curves of other settings or other data are refused, with what differs."""
    first = curves[0]
    for other in curves[1:]:
        for what in ("data", "measure"):
            difference = _difference(first.about.get(what), other.about.get(what))
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


def _resampled(
    u: np.ndarray, o: np.ndarray, r: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap draws of ID(unlearned) and ID(original), from the same samples in each draw."""
    pairs = np.stack([u.mean(0) - r.mean(0), o.mean(0) - r.mean(0)], axis=1)
    together = max(1, 4_000_000 // len(pairs))
    found = np.concatenate(
        [
            pairs[random.integers(0, len(pairs), (min(together, DRAWS - done), len(pairs)))].mean(axis=1)
            for done in range(0, DRAWS, together)
        ]
    )
    return found[:, 0], found[:, 1]


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
