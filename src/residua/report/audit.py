"""The report of an audit: everything in it follows from the records of the models and the settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from residua.compare import (
    IDI,
    Loss,
    Rules,
    ThreeSample,
    accuracy_loss,
    guards,
    idi,
    metrics,
    readings_of,
    three_sample,
    verdict,
)
from residua.compare.three_sample import FEWEST, Side
from residua.compare.verdict import Against, Word, forget_accuracy_side
from residua.curve import Curve
from residua.errors import InputError
from residua.reading import Reading
from residua.record import Record
from residua.report.metrics import metrics_table

Tier = Literal["weights", "features and outputs", "features", "outputs"]
ROLES = ("unlearned", "original", "reference", "random")
# Told beside the verdict of models whose weights are there; what of it is lacking is named.
BESIDE = ("class-accuracy", "mia", "weights", "recovery", "probe")
UNKNOWN = "it was not measured"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IdiPart(_Part):
    """IDI: 1 is Original, 0 is `zero`. `blocks` add up to the value."""

    zero: Literal["reference", "random"]
    value: float | None
    interval: tuple[float, float] | None
    level: float = 0.95
    blocks: dict[int, float] = {}
    id_unlearned: float
    id_original: float
    id_original_interval: tuple[float, float]
    samples: float | None
    restarts: float | None
    reason: str = ""


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
    settings: dict[str, float]
    idi: IdiPart | None
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
        lines = [f"# {self.verdict.replace('_', ' ')}", "", self.sentence, ""]
        if self.idi is not None and self.idi.value is not None:
            shares = ", ".join(f"block {block}: {share:.2f}" for block, share in self.idi.blocks.items())
            lines += [f"Parts of the IDI: {shares}. 1 is Original's knowledge, 0 the {self.idi.zero}'s.", ""]
        if self.guards:
            lines += ["## At first sight", "", *(f"- {guard}" for guard in self.guards), ""]
        if self.tests:
            lines += ["## Closer to the reference or to Original?", "", *_test_lines(self.tests), ""]
        found = {
            role.capitalize(): Reading(self.metrics[role], notes=self.notes.get(role, {}))
            for role in ROLES
            if role in self.metrics
        }
        table = metrics_table(found, title=_title(self.about)).markdown()
        lines += ["## Metrics", "", table]
        if self.not_assessed:
            lines += [
                "## Not assessed",
                "",
                *(f"- {what}: {why}" for what, why in self.not_assessed.items()),
                "",
            ]
        lines += ["## What this does not show", "", *(f"- {limit}" for limit in self.limits), ""]
        settings = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
        lines += ["## How", "", f"Access: {self.tier}. Rules: {settings}.", ""]
        lines += [f"- {role}: weights {digest[:16]}" for role, digest in self.models.items()]
        lines += [f"- record of {role}: {digest[:16]}" for role, digest in self.records.items()]
        return "\n".join(lines) + "\n"


def audit_report(
    records: Mapping[str, Record],
    *,
    rules: Rules,
    reasons: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> AuditReport:
    """The report on the record called `unlearned`: arithmetic on what the records hold, nothing is fitted.

    `records` go by role: unlearned, original and, with a reference, reference; without one, random. The kind
    of access, of reference, and what was not assessed are what the records show. `reasons` say why something
    was not assessed, and `about` what the records do not hold.
    """
    read = {role: readings_of(records[role]) for role in ROLES if role in records}
    facts = _facts(records)
    tier, against = _tier(read, records), _against(records)
    zero: Literal["reference", "random"] = "random" if against == "none" else "reference"
    index = _index(read, zero)
    tests = _tests(read)
    loss = _loss(read, records, against)
    outputs = _forget_side(read, records) if against == "none" else tests.get("outputs")
    found = verdict(idi=index, outputs=outputs, loss=loss, against=against, rules=rules)
    others = {role: read[role] for role in ("original", "reference") if role in read}
    all_metrics = {
        role: metrics(readings, **others, index=_index_of(role, index)) for role, readings in read.items()
    }
    said = [read[role].get("accuracy", Reading({})).values for role in ("unlearned", "original")]
    full = all({"UA", "RA", "TA"} <= set(values) for values in said)
    return AuditReport(
        verdict=found.word,
        sentence=found.sentence,
        limits=list(found.limits),
        tier=tier,
        against=against,
        settings=dataclasses.asdict(rules),
        idi=None if index is None else IdiPart(zero=zero, **dataclasses.asdict(index)),
        loss=None if loss is None else (loss.value, loss.low, loss.high),
        tests={name: _test_part(test, rules.level) for name, test in tests.items()},
        guards=_guards(said[0], said[1], records["unlearned"]) if full else [],
        metrics={role: dict(reading.values) for role, reading in all_metrics.items()},
        notes={role: dict(reading.notes) for role, reading in all_metrics.items() if reading.notes},
        not_assessed=_not_assessed(read, tier, reasons or {}),
        about=dict(about or {}) | facts,
        models={role: records[role].method["weights"] for role in read if "weights" in records[role].method},
        records={role: records[role].sha256 for role in read},
    )


def differences(left: Any, right: Any, at: str = "") -> list[str]:
    """Where two trees of plain values differ; numbers may differ in the last digits."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [
            line
            for name in sorted(left.keys() | right.keys(), key=str)
            for line in differences(left.get(name), right.get(name), f"{at}.{name}" if at else str(name))
        ]
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        return [
            line
            for i, (one, other) in enumerate(zip(left, right, strict=True))
            for line in differences(one, other, f"{at}.{i}")
        ]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    if left == right or (numbers and math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-12)):
        return []
    return [f"{at} is {left!r}, but follows as {right!r}"]


Readings = Mapping[str, Mapping[str, Reading]]


def _guards(unlearned: Mapping[str, float], original: Mapping[str, float], record: Record) -> list[str]:
    # Saved outputs do not say what was forgotten; less is asked of random samples, and holds for classes too.
    scenario = record.setting["task"].get("scenario", "random")
    return guards(unlearned, original, scenario=scenario, samples=_size(record, "forget"))


def _facts(records: Mapping[str, Record]) -> dict[str, Any]:
    """What a report says of the audit and the records know too."""
    of = records["unlearned"]
    for role, record in records.items():
        if record.setting["task"] != of.setting["task"] or record.seeds.get("audit") != of.seeds.get("audit"):
            raise InputError(f"the records of {role} and unlearned are not of one audit")
    found: dict[str, Any] = {"command": of.command, "task": of.setting["task"]}
    if "network" in of.setting:
        found["network"] = of.setting["network"]
    if "audit" in of.seeds:
        found["seed"] = of.seeds["audit"]
    if "reference" in records and "proxy" in records["reference"].method:
        found["proxy"] = records["reference"].method["proxy"]
    return found


def _tier(read: Readings, records: Mapping[str, Record]) -> Tier:
    """What was given of the unlearned model."""
    if "saved" not in records["unlearned"].method:
        return "weights"
    has = read["unlearned"]
    if "information" in has and "outputs" in has:
        return "features and outputs"
    return "features" if "information" in has else "outputs"


def _against(records: Mapping[str, Record]) -> Against:
    if "reference" not in records:
        return "none"
    return "proxy" if "proxy" in records["reference"].method else "model"


# What the verdict rests on: its name, the reading that holds it, and what was given where all lack it.
RESTS_ON = (
    ("white-box", "information", "outputs"),
    ("outputs", "outputs", "features"),
    ("test accuracy", "accuracy", "features"),
)


def _not_assessed(read: Readings, tier: Tier, reasons: Mapping[str, str]) -> dict[str, str]:
    """What the records lack, and why: where they do not tell, `reasons` are taken on trust."""
    found: dict[str, str] = {}
    for name, label, given in RESTS_ON:
        compared = [r for r in ("unlearned", "original", "reference") if r in read]
        compared = compared[:2] if label == "accuracy" else compared
        without = [role for role in compared if label not in read[role]]
        if without and tier == "weights":
            found[name] = UNKNOWN
        elif without:
            some = f"nothing that tells it was saved of {' and '.join(without)}"
            found[name] = f"only {given} were given" if without == compared else some
    if tier == "weights":
        found |= {label: UNKNOWN for label in (*BESIDE, *reasons) if label not in read["unlearned"]}
    else:
        found |= read["unlearned"].get("accuracy", Reading({})).notes
        found["weights"] = "not given, so attacks, recovery, probes and distances were not made"
        if "reference" not in read:
            found["reference"] = "none was given, and no random network can be made of what was saved"
    return {name: reasons.get(name, why) if why == UNKNOWN else why for name, why in found.items()}


def _index_of(role: str, index: IDI | None) -> IDI | None:
    """The IDI of the others, from the unlearned model's: Original's is 1 and the reference's 0, always."""
    if index is None or index.value is None or role not in ("original", "reference"):
        return index
    value = 1.0 if role == "original" else 0.0
    return dataclasses.replace(index, value=value, interval=(value, value))


def _index(read: Readings, zero: str) -> IDI | None:
    curves = [
        read[role].get("information") if role in read else None for role in ("unlearned", "original", zero)
    ]
    u, o, r = curves
    if not (isinstance(u, Curve) and isinstance(o, Curve) and isinstance(r, Curve)):
        return None
    return idi(u, original=o, reference=r)


def _tests(read: Readings) -> dict[str, ThreeSample]:
    """`outputs` on probabilities, `block l` on profiles; those with enough samples."""
    if "reference" not in read:
        return {}
    three = [read[role] for role in ("unlearned", "reference", "original")]
    found = {}
    if all("outputs" in readings for readings in three):
        rows = [np.exp(readings["outputs"].arrays["log_probabilities"]) for readings in three]
        if len(rows[0]) >= FEWEST and len({row.shape for row in rows}) == 1:
            found["outputs"] = three_sample(*rows)
    if all("representation" in readings for readings in three):
        kept = [readings["representation"].arrays for readings in three]
        for key in sorted((key for key in kept[0] if key.startswith("profile.")), key=_number):
            if all(key in arrays for arrays in kept) and len(kept[0][key]) >= FEWEST:
                found[f"block {_number(key)}"] = three_sample(*(arrays[key] for arrays in kept))
    return found


def _number(key: str) -> int:
    return int(key.rpartition(".")[2])


def _loss(read: Readings, records: Mapping[str, Record], against: Against) -> Loss | None:
    """Against the worse of Original and a reference that had all of the retained data, as a user would do well with."""
    said = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    if any("TA" not in said.get(role, {}) for role in ("unlearned", "original")):
        return None
    before = said["original"]["TA"]
    if against == "model" and "TA" in said.get("reference", {}):
        before = min(before, said["reference"]["TA"])
    return accuracy_loss(before, said["unlearned"]["TA"], _size(records["unlearned"], "test"))


def _forget_side(read: Readings, records: Mapping[str, Record]) -> Side | Literal["neither"] | None:
    """None where the records hold no such accuracy, "neither" where it does not tell."""
    said = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    task = records["unlearned"].setting["task"]
    if any(not {"UA", "TA"} <= set(said.get(role, {})) for role in ("unlearned", "original")):
        return None
    if "scenario" not in task:  # saved outputs do not say whether classes or samples were forgotten
        return None
    side = forget_accuracy_side(
        1 - said["unlearned"]["UA"],
        original=1 - said["original"]["UA"],
        expected=said["original"]["TA"] if task["scenario"] == "random" else 0.0,
        n=_size(records["unlearned"], "forget"),
    )
    return side or "neither"


def _size(record: Record, split: str) -> int:
    return int(record.setting["task"]["splits"][split]["n"])


def _test_part(test: ThreeSample, level: float) -> TestPart:
    return TestPart(**dataclasses.asdict(test), closer_to=test.closer_to(level))


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
