"""Readings: the values that a measure read in one model; a `Curve` is one kind of reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from residua.errors import InputError

# Half-width of a 95 % interval, in standard errors of a normal distribution.
Z95 = 1.959964


@dataclass(frozen=True)
class Reading:
    """Named numbers, and the arrays behind them from which others can be computed later.

    A value is a finite number or it is not there, and then `notes` says why, under the same name. `about` is what
    two readings must share to be compared, beside the measure's settings. A record keeps the `kind`, so that a
    reading comes back as what it was.
    """

    values: Mapping[str, float]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    # How long parts of it took, which is not part of the reading: two equal readings may differ here.
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True, compare=False)

    kind: ClassVar[str] = "reading"
    kinds: ClassVar[dict[str, type[Reading]]] = {}

    def __init_subclass__(cls) -> None:
        Reading.kinds[cls.kind] = cls


@dataclass(frozen=True)
class Curve(Reading):
    """I(Z_l; Y) of several blocks of one model, with the term of every sample, by families of critics.

    `arrays["terms"]` is (families, restarts, blocks, samples): their mean over the last axis is I. `about` says
    what was measured and how; curves whose `about` differ are never compared. `labels` are those of
    the samples, `index` where they stand in the training data. `test_terms` are those of test images, which no
    critic was fitted on. The first family is the one that `information` reports.
    """

    kind: ClassVar[str] = "curve"

    @property
    def blocks(self) -> list[int]:
        return [int(block) for block in self.arrays["blocks"]]

    @property
    def families(self) -> list[str]:
        return list(self.about.get("families", ("network",)))

    @property
    def labels(self) -> np.ndarray:
        return self.arrays["labels"]

    @property
    def ceiling(self) -> float:
        """H(Y): no block can know more."""
        return self.values["H"]

    @property
    def information(self) -> dict[int, float]:
        """I of each block, the mean over restarts and samples."""
        return {block: self.values[f"I{block}"] for block in self.blocks}

    @property
    def intervals(self) -> dict[int, tuple[float, float]]:
        """95 % intervals of each block's I: samples, what critics with more data would add, restarts."""
        return {block: (self.values[f"I{block}_low"], self.values[f"I{block}_high"]) for block in self.blocks}

    @property
    def accuracy(self) -> dict[int, float]:
        """Accuracy of each block's critic on unseen data."""
        return {block: self.values[f"accuracy{block}"] for block in self.blocks}

    def terms(self, blocks: Sequence[int], family: str | None = None, *, test: bool = False) -> np.ndarray:
        """The terms (restarts, samples), summed over these blocks; of a family, or of the first."""
        missing = [block for block in blocks if block not in self.blocks]
        if missing:
            measured = ", ".join(map(str, self.blocks))
            raise InputError(f"block {missing[0]} was not measured, only {measured}; measure it or ask for fewer")
        if family is not None and family not in self.families:
            raise InputError(
                f"family {family!r} was not measured, only {', '.join(self.families)}; measure with family stack"
            )
        name = "test_terms" if test else "terms"
        if name not in self.arrays:
            raise InputError("no test images were read with this curve; measure it again")
        terms = self.arrays[name]
        if terms.ndim == 4:
            terms = terms[self.families.index(family) if family else 0]
        rows = [self.blocks.index(block) for block in blocks]
        return terms[:, rows].astype(np.float64).sum(axis=1)

    def residue(self, block: int) -> np.ndarray:
        """Information that the block holds about each sample, in nats: its term, averaged over restarts."""
        return self.terms([block]).mean(axis=0)
