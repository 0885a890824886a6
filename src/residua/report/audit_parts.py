"""The parts of an audit's report as data, and the roles that models have in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Tier = Literal["weights", "features and outputs", "features", "outputs"]
ROLES = ("unlearned", "original", "reference", "random")


def reference_role(number: int) -> str:
    """The role of reference 1, 2, ...: reference, reference2, ..."""
    return "reference" if number == 1 else f"reference{number}"


def references_in(names: Iterable[str]) -> list[str]:
    """The roles of the references among these, in their order."""
    own = [name for name in names if re.fullmatch(r"reference([2-9]|[1-9]\d+)?", name)]
    return sorted(own, key=lambda name: int(name.removeprefix("reference") or 1))


def roles_in(names: Iterable[str]) -> list[str]:
    """The roles that an audit knows among these, in the order of a report."""
    names = list(names)
    return [
        role
        for each in ROLES
        for role in (references_in(names) if each == "reference" else [each] * (each in names))
    ]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IdiPart(Part):
    """IDI: 1 is Original, 0 is `zero`. `blocks` add up to the value, `positive` is the sum of those above 0."""

    zero: Literal["reference", "random"]
    value: float | None
    interval: tuple[float, float] | None
    level: float = 0.95
    blocks: dict[int, float] = {}
    block_intervals: dict[int, tuple[float, float]] = {}
    positive: float | None = None
    largest: int | None = None
    id_unlearned: float
    id_original: float
    id_original_interval: tuple[float, float]
    samples: float | None
    restarts: float | None
    reason: str = ""


class InsideItem(Part):
    """A block, a family of critics or unseen images: its IDI with its interval, and the margin that it has to be within."""

    value: float
    low: float
    high: float
    margin: float
    inside: bool


class InsidePart(Part):
    """What the verdict makes of IDI. Absent numbers need several references."""

    references: int
    tolerance: float
    margin: float
    spread: float | None = Field(None, description="standard deviation of a retrained model's IDI, moderated")
    measured: float | None = Field(None, description="the plain standard deviation of the references' IDI")
    left_out: list[float] = []
    resolution: float | None = None
    place: int | None = None
    p: float | None = None
    parts: dict[str, InsideItem] = {}


class LikenessPart(Part):
    """Outputs on the forget set beside the references'."""

    ua: float
    expected: float
    allowed: float
    half: float
    tolerance: float
    jsd: float | None = None
    jsd_allowed: float | None = None
    like: bool
    answers: bool
    perturbed: LikenessPart | None = None


class WitnessPart(Part):
    """What an attack on the encoder regains: 0 is the references', 1 Original's."""

    value: float
    low: float
    high: float
    contradicts: bool


class ExcessPart(Part):
    """What it knows of forgotten samples beyond test images, against the references and Original; no vote."""

    value: float | None
    interval: tuple[float, float] | None
    nats: float
    original_nats: float


class TestPart(Part):
    """A three-sample test; `closer_to` at the report's level, null where it cannot be told."""

    __test__ = False

    to_reference: float
    to_original: float
    error: float
    p_reference: float
    p_original: float
    n: int
    closer_to: Literal["reference", "original"] | None


class CurvePart(Part):
    """I(Z_l; Y) of each block of one model in nats, with its interval where there is one, and the ceiling H(Y)."""

    ceiling: float
    blocks: dict[int, float]
    intervals: dict[int, tuple[float, float]] = {}


class ResidueClass(Part):
    """What a block tells of the samples of one label, in nats per sample: of this model, of Original and of the references."""

    label: str
    n: int
    unlearned: float
    original: float
    reference: float


class ResidueSample(Part):
    """A forgotten sample by its place in the training data: nats that the block tells of it, and the references' mean."""

    index: int
    unlearned: float
    reference: float


class ResiduePart(Part):
    """Where the residue is: in the block with the largest share, by class, and the samples that it tells most of.

    A sample's residue is its term log q(y|z) - log p(y) of the information; `above` counts the forgotten samples of
    which this model tells more than the references do in the mean.
    """

    block: int
    classes: list[ResidueClass]
    samples: list[ResidueSample] = []
    above: int
    forgotten: int
