"""What a verdict rests on: the declared rules, and the findings, as its words and sentences need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from residua.compare.agreement import Likeness, Witness
from residua.compare.references import Inside
from residua.compare.three_samples import Side, ThreeSample
from residua.errors import InputError

Word = Literal["FORGOTTEN", "SHALLOW", "NOT_FORGOTTEN", "OVER_UNLEARNED", "UTILITY_LOST", "UNDETERMINED"]
Against = Literal["model", "proxy", "none"]
Outputs = ThreeSample | Side | Literal["neither"]

# What IDI may be away from 0, where nothing else is declared: half of the way to Original where one reference cannot
# show its luck, half of that where several do.
ONE_REFERENCE, SEVERAL_REFERENCES = 0.5, 0.25


@dataclass(frozen=True)
class Rules:
    """The lines that the verdict draws; all of them are visible settings.

    `margin`: the IDI that is tolerated, declared before. By default 0.25, and 0.5 with one reference, where it has to
    cover the unknown variation between retrainings. What retrainings differ by is always tolerated. `floor_margin`: without a reference 0
    is a network with random weights, and only what is all but Original's, or all but nothing, can be named. `level`: of
    each one-sided test of outputs. `utility`: the test accuracy, a share, that a model may lose. `outputs`: how far
    UA may be from the references'. `divergence`: how many times as far as a reference outputs may be from
    the other references (JSD).
    """

    margin: float | None = None
    floor_margin: float = 0.1
    level: float = 0.05
    utility: float = 0.10
    outputs: float = 0.05
    divergence: float = 1.5

    def __post_init__(self) -> None:
        # A margin of 1 would let Original itself pass.
        most = {"floor_margin": 0.5, "level": 0.5, "utility": 1.0, "outputs": 0.5, "divergence": 10.0}
        if self.margin is not None:
            most["margin"] = 1.0
        for name, below in most.items():
            if not 0 < getattr(self, name) < below:
                raise InputError(f"{name} is {getattr(self, name)}, expected above 0 and below {below:g}")

    def tolerance(self, references: int) -> float:
        """The IDI that is tolerated with so many references."""
        if self.margin is not None:
            return self.margin
        return ONE_REFERENCE if references < 2 else SEVERAL_REFERENCES


@dataclass(frozen=True)
class Loss:
    """How much test accuracy a model has lost, with its 95 % interval; shares."""

    value: float
    low: float
    high: float


Where = Literal["more", "less", "within"]


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on, as its sentences need it."""

    inside: Inside | None
    outputs: Outputs | None
    side: Side | None
    loss: Loss | None
    likeness: Likeness | None
    contradicted: tuple[Witness, ...]
    against: Against
    where: Where | None
    rules: Rules
