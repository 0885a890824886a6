"""Curve: what the blocks of one model know, as numbers that can be compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from residua.errors import InputError
from residua.reading import Reading


@dataclass(frozen=True)
class Curve(Reading):
    """I(Z_l; Y) of several blocks of one model, with the term of every sample.

    `arrays["terms"]` is (restarts, blocks, samples): their mean over the last axis is I. `about` says
    what was measured and how; curves whose `about` differ are never compared. `labels` are those of
    the samples, `index` where they stand in the training data.
    """

    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> list[int]:
        return [int(block) for block in self.arrays["blocks"]]

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
        """95 % intervals of each block's I: sampling noise, and spread between restarts."""
        return {block: (self.values[f"I{block}_low"], self.values[f"I{block}_high"]) for block in self.blocks}

    @property
    def accuracy(self) -> dict[int, float]:
        """How often the critic of each block names the right label, on data it has not seen."""
        return {block: self.values[f"accuracy{block}"] for block in self.blocks}

    def terms(self, blocks: Sequence[int]) -> np.ndarray:
        """The terms (restarts, samples), summed over these blocks."""
        missing = [block for block in blocks if block not in self.blocks]
        if missing:
            measured = ", ".join(map(str, self.blocks))
            raise InputError(
                f"block {missing[0]} was not measured, only {measured}; measure it or ask for fewer"
            )
        rows = [self.blocks.index(block) for block in blocks]
        return self.arrays["terms"][:, rows].astype(np.float64).sum(axis=1)

    def residue(self, block: int) -> np.ndarray:
        """What the block still tells of each sample, in nats: its term, the mean over restarts."""
        return self.terms([block]).mean(axis=0)

    def residue_by_label(self, block: int) -> dict[int, float]:
        """The mean residue of each label's samples."""
        residue = self.residue(block)
        return {int(label): float(residue[self.labels == label].mean()) for label in np.unique(self.labels)}
