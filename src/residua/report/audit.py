"""The report of an audit: everything in it follows from the records of the models and the settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from residua.compare import IDI, Inside, Likeness, Rules, ThreeSample, guards, metrics, readings_of, verdict
from residua.compare.agreement import Witness
from residua.compare.verdicts import Against
from residua.errors import InputError
from residua.facts import TaskFacts
from residua.readings import Reading
from residua.record import Record
from residua.report.audit_data import (
    AuditReport,
    ExcessPart,
    IdiPart,
    InsideItem,
    InsidePart,
    LikenessPart,
    TestPart,
    Tier,
    WitnessPart,
    references_in,
    roles_in,
)
from residua.report.findings import (
    Readings,
    find_excess,
    find_inside,
    find_likeness,
    find_loss,
    find_tests,
    find_witnesses,
    forget_side,
    index_of,
)
from residua.report.plan import Plan, departures
from residua.report.residue import curve_parts, find_residue

# Told beside the verdict of models whose weights are there; what of it is lacking is named.
BESIDE = ("class-accuracy", "mia", "weights", "recovery", "probe")
UNKNOWN = "it was not measured"


def audit_report(
    records: Mapping[str, Record],
    *,
    rules: Rules,
    reasons: Mapping[str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> AuditReport:
    """The report on the record called `unlearned`: arithmetic on what the records hold, nothing is fitted.

    `records` go by role: unlearned, original and reference, reference2, ...; without a reference, random. The kind
    of access, of reference, and what was not assessed are what the records show. `reasons` say why something was not
    assessed where the records do not (version 1), and `about` what the records do not hold.
    """
    read = {role: readings_of(records[role]) for role in roles_in(records)}
    facts = _facts(records)
    _follow_plan(records, rules, about or {})
    task = _task(records["unlearned"])
    tier, against = _tier(read, records), _against(records)
    zero: Literal["reference", "random"] = "random" if against == "none" else "reference"
    inside, tests = find_inside(read, task, rules), find_tests(read)
    loss, like = find_loss(read, task, against), find_likeness(read, task, rules)
    seen = find_witnesses(read, task)
    outputs = forget_side(read, task) if against == "none" else tests.get("outputs")
    result = verdict(
        inside=inside, outputs=outputs, loss=loss, likeness=like, witnesses=seen, against=against, rules=rules
    )
    others = {role: read[role] for role in ("original", "reference") if role in read}
    all_metrics = {
        role: metrics(readings, **others, index=index_of(role, inside)) for role, readings in read.items()
    }
    answers = [read[role].get("accuracy", Reading({})).values for role in ("unlearned", "original")]
    full = all({"UA", "RA", "TA"} <= set(values) for values in answers)
    memory = find_excess(read, task)
    return AuditReport(
        verdict=result.word,
        sentence=result.sentence,
        limits=list(result.limits),
        remedies=list(result.remedies),
        tier=tier,
        against=against,
        settings=dataclasses.asdict(rules),
        idi=None if inside is None else _idi_part(inside.idi, zero),
        inside=_inside_part(inside) if inside is not None and against != "none" else None,
        likeness=None if like is None else _likeness_part(like),
        witnesses={each.name: _witness_part(each, inside) for each in seen},
        excess=None if memory is None else ExcessPart(**dataclasses.asdict(memory)),
        curves=curve_parts(read),
        residue=find_residue(read, task, None if inside is None else inside.idi),
        loss=None if loss is None else (loss.value, loss.low, loss.high),
        tests={name: _test_part(test, rules.level) for name, test in tests.items()},
        guards=_guards(answers[0], answers[1], records["unlearned"]) if full else [],
        metrics={role: dict(reading.values) for role, reading in all_metrics.items()},
        notes={role: dict(reading.notes) for role, reading in all_metrics.items() if reading.notes},
        not_assessed=_not_assessed(read, tier, _refused(records), reasons or {}),
        about=dict(about or {}) | facts,
        models={role: weights for role in read if (weights := records[role].method.weights)},
        records={role: records[role].sha256 for role in read},
    )


def _witness_part(witness: Witness, inside: Inside | None) -> WitnessPart:
    contradicts = inside is not None and witness.contradicts(inside.tolerance)
    return WitnessPart(value=witness.value, low=witness.low, high=witness.high, contradicts=contradicts)


def _idi_part(index: IDI | None, zero: Literal["reference", "random"]) -> IdiPart | None:
    if index is None:
        return None
    return IdiPart(zero=zero, positive=index.positive, largest=index.largest, **dataclasses.asdict(index))


def _follow_plan(records: Mapping[str, Record], rules: Rules, about: Mapping[str, Any]) -> None:
    """An audit that names a plan has followed it, or there is no report."""
    if "plan" in about:
        wrong = departures(Plan.model_validate(about["plan"]), records, rules)
        if wrong:
            raise InputError(
                f"the audit departs from its plan: {'; '.join(wrong)}; follow it, or audit without a plan"
            )


def _inside_part(inside: Inside) -> InsidePart:
    known = inside.chance
    return InsidePart(
        references=inside.references,
        tolerance=inside.tolerance,
        margin=inside.margin,
        spread=None if known is None else known.spread,
        measured=None if known is None else known.measured,
        left_out=[] if known is None else list(known.left_out),
        resolution=inside.resolution,
        place=inside.place,
        p=inside.p,
        parts={
            name: InsideItem(
                value=part.value, low=part.low, high=part.high, margin=part.margin, inside=part.inside
            )
            for name, part in inside.parts.items()
        },
    )


def _likeness_part(like: Likeness) -> LikenessPart:
    own = dataclasses.asdict(like) | {"like": like.like, "answers": like.answers}
    own["perturbed"] = None if like.perturbed is None else _likeness_part(like.perturbed)
    return LikenessPart(**own)


def _guards(unlearned: Mapping[str, float], original: Mapping[str, float], record: Record) -> list[str]:
    # Saved outputs do not say what was forgotten; less is asked of random samples, and holds for classes too.
    task = _task(record)
    return guards(unlearned, original, scenario=task.scenario or "random", samples=task.size("forget"))


def _facts(records: Mapping[str, Record]) -> dict[str, Any]:
    """What a report says of the audit and the records know too."""
    unlearned = records["unlearned"]
    for role, record in records.items():
        if record.setting.task != unlearned.setting.task or record.seeds.get("audit") != unlearned.seeds.get(
            "audit"
        ):
            raise InputError(f"the records of {role} and unlearned are not of one audit")
    found: dict[str, Any] = {"command": unlearned.command, "task": _task(unlearned).model_dump(mode="json")}
    if unlearned.setting.network is not None:
        found["network"] = unlearned.setting.network
    if "audit" in unlearned.seeds:
        found["seed"] = unlearned.seeds["audit"]
    if "reference" in records and (proxy := records["reference"].method.proxy) is not None:
        found["proxy"] = {"label": "proxy", "class": "Pretraining", "share": proxy.share} | proxy.fields
    made = {label: facts.fields for label, facts in unlearned.measures.items() if facts.refused is None}
    return found | {"software": unlearned.software, "measures": json.loads(json.dumps(made))}


def _task(record: Record) -> TaskFacts:
    if record.setting.task is None:
        raise InputError(
            f"the record of {record.name} does not say what was to be forgotten; measure it again"
        )
    return record.setting.task


def _tier(read: Readings, records: Mapping[str, Record]) -> Tier:
    """What was given of the unlearned model."""
    saved = records["unlearned"].method.saved
    if not saved:
        return "weights"
    if "features" in saved and "outputs" in saved:
        return "features and outputs"
    return "features" if "features" in saved else "outputs"


def _against(records: Mapping[str, Record]) -> Against:
    if "reference" not in records:
        return "none"
    return "model" if records["reference"].method.proxy is None else "proxy"


# What the verdict rests on: its name, the reading that holds it, and what was given where all lack it.
RESTS_ON = (
    ("white-box", "information", "outputs"),
    ("outputs", "outputs", "features"),
    ("test accuracy", "accuracy", "features"),
)


def _refused(records: Mapping[str, Record]) -> dict[str, str]:
    """Why measures have no reading in some record."""
    return {
        label: why for role in reversed(roles_in(records)) for label, why in records[role].refused.items()
    }


def _not_assessed(
    read: Readings, tier: Tier, refused: Mapping[str, str], trusted: Mapping[str, str]
) -> dict[str, str]:
    """What the records lack, and why: where they do not say, the reasons are taken on trust."""
    reasons = dict(trusted) | dict(refused)
    found: dict[str, str] = {}
    for name, label, given in RESTS_ON:
        compared = ["unlearned", "original", *references_in(read)]
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


def _test_part(test: ThreeSample, level: float) -> TestPart:
    return TestPart(**dataclasses.asdict(test), closer_to=test.closer_to(level))
