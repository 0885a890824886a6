"""The report of an audit as data: what `report.json` holds, and the same as plain text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from residua.compare.verdicts import Against, Word
from residua.readings import Reading
from residua.report.metrics import metrics_table

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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IdiPart(_Part):
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


class InsideItem(_Part):
    """A block, a family of critics or unseen images: its IDI with its interval, and the margin that it has to be within."""

    value: float
    low: float
    high: float
    margin: float
    inside: bool


class InsidePart(_Part):
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


class LikenessPart(_Part):
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


class WitnessPart(_Part):
    """What an attack on the encoder regains: 0 is the references', 1 Original's."""

    value: float
    low: float
    high: float
    contradicts: bool


class ExcessPart(_Part):
    """What it knows of forgotten samples beyond test images, against the references and Original; no vote."""

    value: float | None
    interval: tuple[float, float] | None
    nats: float
    original_nats: float


class TestPart(_Part):
    """A three-sample test; `closer_to` at the report's level, null where it cannot be told."""

    __test__ = False

    to_reference: float
    to_original: float
    error: float
    p_reference: float
    p_original: float
    n: int
    closer_to: Literal["reference", "original"] | None


class AuditReport(_Part):
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
    witnesses: dict[str, WitnessPart] = {}
    excess: ExcessPart | None = None
    remedies: list[str] = []
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
        """The plain report."""
        lines = [
            f"# {self.verdict.replace('_', ' ')}",
            "",
            *"\n\n".join(self.sentence.split("\n")).split("\n"),
            "",
        ]
        if self.idi is not None and self.idi.value is not None:
            shares = ", ".join(f"block {block}: {share:.2f}" for block, share in self.idi.blocks.items())
            lines += [
                f"Parts of the IDI: {shares}; the sum of those above 0 is {self.idi.positive:.2f}. 1 is Original's "
                f"knowledge, 0 the {self.idi.zero}'s. In nats: {self.idi.id_unlearned:.4f} of {self.idi.id_original:.4f}.",
                "",
            ]
        if self.inside is not None and self.inside.parts:
            lines += ["## Every part", "", *_part_lines(self.inside, self.witnesses), ""]
        if self.guards:
            lines += ["## At first sight", "", *(f"- {guard}" for guard in self.guards), ""]
        if self.tests:
            lines += ["## Closer to the reference or to Original?", "", *_test_lines(self.tests), ""]
        found = {
            role.capitalize(): Reading(self.metrics[role], notes=self.notes.get(role, {}))
            for role in roles_in(self.metrics)
        }
        table = metrics_table(found, title=_title(self.about)).markdown()
        lines += ["## Metrics", "", table]
        back = _stress_lines(self.metrics)
        if back:
            lines += ["## What comes back", "", *back, ""]
        if self.not_assessed:
            lines += [
                "## Not assessed",
                "",
                *(f"- {what}: {why}" for what, why in self.not_assessed.items()),
                "",
            ]
        lines += ["## What this does not show", "", *(f"- {limit}" for limit in self.limits), ""]
        settings = ", ".join(
            f"{name} {'by the number of references' if value is None else format(value, 'g')}"
            for name, value in self.settings.items()
        )
        lines += ["## How", "", f"Access: {self.tier}. Rules: {settings}.", ""]
        if "plan" in self.about:
            text = json.dumps(self.about["plan"], sort_keys=True, separators=(",", ":"))
            digest = hashlib.sha256(text.encode()).hexdigest()
            lines += [
                f"Planned before: rules, measures, seed, data, Original and references are those of the plan {digest}.",
                "",
            ]
        lines += [f"- {role}: weights {digest[:16]}" for role, digest in self.models.items()]
        lines += [f"- record of {role}: {digest[:16]}" for role, digest in self.records.items()]
        return "\n".join(lines) + "\n"


def _part_lines(inside: InsidePart, witnesses: Mapping[str, WitnessPart]) -> list[str]:
    lines = ["| part | IDI | 95 % interval | has to be below | |", "|---|---|---|---|---|"]
    for name, part in inside.parts.items():
        kept = "" if part.inside else "not within"
        lines.append(
            f"| {name} | {part.value:.2f} | {part.low:.2f} to {part.high:.2f} | {part.margin:.2f} | {kept} |"
        )
    for name, each in witnesses.items():
        kept = "contradicts" if each.contradicts else ""
        lines.append(
            f"| {name} | {each.value:.2f} | {each.low:.2f} to {each.high:.2f} | {inside.tolerance:.2f} (lower end) | {kept} |"
        )
    return lines


def _stress_lines(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Accuracy on the forgotten after each treatment, and the gap to the references, which are treated alike."""
    zeros = references_in(metrics)
    names = [name for name in metrics.get("unlearned", {}) if name.startswith("stress.")]
    if not names or not zeros:
        return []
    lines = ["| treatment | Unlearned | references | gap | Original |", "|---|---|---|---|---|"]
    for name in names:
        if all(name in metrics[role] for role in ("original", *zeros)):
            own, theirs = metrics["unlearned"][name], sum(metrics[role][name] for role in zeros) / len(zeros)
            cells = (100 * own, 100 * theirs, 100 * (own - theirs), 100 * metrics["original"][name])
            lines.append(
                f"| {name.partition('.')[2]} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |"
            )
    return [*lines, "", "Per cent of the forgotten that are answered; no vote in the verdict."]


def _test_lines(tests: Mapping[str, TestPart]) -> list[str]:
    lines = [
        "| on | MMD^2 to the reference | MMD^2 to Original | p (reference) | closer to |",
        "|---|---|---|---|---|",
    ]
    for name, test in tests.items():
        closer = {"reference": "the reference", "original": "Original", None: "not clear"}[test.closer_to]
        lines.append(
            f"| {name} | {test.to_reference:.4f} | {test.to_original:.4f} | {test.p_reference:.4f} | {closer} |"
        )
    return lines


def _title(about: Mapping[str, Any]) -> str:
    task = about.get("task", {})
    return f"{task.get('dataset', 'saved by the model owner')}, {task['splits']['forget']['n']} examples forgotten"
