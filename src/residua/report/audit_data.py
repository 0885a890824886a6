"""The report of an audit as data: what `report.json` holds, and the same as plain text."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from residua.compare.verdicts import Against, Word
from residua.report.audit_parts import (
    ROLES,
    CurvePart,
    ExcessPart,
    IdiPart,
    InsideItem,
    InsidePart,
    LikenessPart,
    Part,
    ResidueClass,
    ResiduePart,
    ResidueSample,
    TestPart,
    Tier,
    WitnessPart,
    reference_role,
    references_in,
    roles_in,
)
from residua.report.audit_text import markdown

__all__ = [
    "ROLES",
    "AuditReport",
    "CurvePart",
    "ExcessPart",
    "IdiPart",
    "InsideItem",
    "InsidePart",
    "LikenessPart",
    "ResidueClass",
    "ResiduePart",
    "ResidueSample",
    "TestPart",
    "Tier",
    "WitnessPart",
    "reference_role",
    "references_in",
    "roles_in",
]


class AuditReport(Part):
    """What `report.json` holds. Numbers are shares, nats and seconds; `records` are the readings' hashes."""

    schema_version: Literal[1] = 1
    verdict: Word
    sentence: str
    limits: list[str]
    tier: Tier
    against: Against
    settings: dict[str, float | None]
    idi: IdiPart | None
    inside: InsidePart | None = None
    likeness: LikenessPart | None = None
    witnesses: dict[str, WitnessPart] = Field(default_factory=dict)
    excess: ExcessPart | None = None
    curves: dict[str, CurvePart] = Field(default_factory=dict)
    residue: ResiduePart | None = None
    remedies: list[str] = Field(default_factory=list)
    loss: tuple[float, float, float] | None = Field(
        description="lost test accuracy and the ends of its interval"
    )
    tests: dict[str, TestPart]
    guards: list[str]
    metrics: dict[str, dict[str, float]]
    notes: dict[str, dict[str, str]]
    not_assessed: dict[str, str]
    about: dict[str, Any]
    models: dict[str, str]
    records: dict[str, str]

    def markdown(self) -> str:
        """The plain report: what the page says, in the same order."""
        return markdown(self)
