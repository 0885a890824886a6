"""The report of an audit: everything in it follows from the records of the models and the rules."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from residua import compare
from residua.compare import IDI, Caveat, Excess, Findings, Inside, Likeness, Loss, Rules, ThreeSample, Witness
from residua.compare.accuracies import standard_error
from residua.compare.references import MOVED, Part
from residua.compare.three_samples import FEWEST, Side
from residua.compare.verdicts import EXTRA_READINGS, Against, Word, forget_accuracy_side
from residua.errors import InputError
from residua.readings import Z95, Curve, Reading
from residua.record import Record, TaskFacts
from residua.report.plan import Plan, departures
from residua.report.table import metrics_table
from residua.report.text import easier, laxer, plain, role_name, safe, subject
from residua.roles import references_in, roles_in

Tier = Literal["weights", "features and outputs", "features", "outputs"]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CurvePart(_Frozen):
    """I(Z_l; Y) of each block of one model in nats, with its interval where there is one, and the ceiling H(Y).

    `random` is what the same critics read of the last block for labels that were exchanged at random.
    """

    ceiling: float
    blocks: dict[int, float]
    intervals: dict[int, tuple[float, float]] = {}
    random: float | None = None


class ResidueClass(_Frozen):
    """Nats per sample that a block holds about the samples of one label: this model, Original and the references."""

    label: str
    n: int
    unlearned: float
    original: float
    reference: float


class ResidueSample(_Frozen):
    """A forgotten sample by its place in the training data: nats that the block holds about it, and the references' mean."""

    index: int
    unlearned: float
    reference: float


class ResiduePart(_Frozen):
    """Location of the residue: the block with the largest part of the IDI, its classes and its samples.

    A sample's residue is its term log q(y|z) - log p(y) of the information; `above` counts the forgotten samples of
    which this model holds more than the references do in the mean.
    """

    block: int
    classes: list[ResidueClass]
    samples: list[ResidueSample] = []
    above: int
    forgotten: int


class AuditReport(_Frozen):
    """Content of `report.json`. Numbers are fractions, nats and seconds; `records` are the hashes of the records."""

    schema_version: Literal[1] = 1
    verdict: Word
    findings: Findings
    sentence: str
    limits: tuple[str, ...]
    remedies: tuple[str, ...] = ()
    tier: Tier
    against: Against
    rules: Rules
    inside: Inside | None
    likeness: Likeness | None = None
    witnesses: list[Witness] = Field(default_factory=list)
    caveats: list[Caveat] = Field(default_factory=list)
    excess: Excess | None = None
    start: IDI | None = None
    curves: dict[str, CurvePart] = Field(default_factory=dict)
    residue: ResiduePart | None = None
    loss: Loss | None
    tests: dict[str, ThreeSample]
    guards: list[str]
    metrics: dict[str, dict[str, float]]
    notes: dict[str, dict[str, str]]
    not_assessed: dict[str, str]
    about: dict[str, Any]
    models: dict[str, str]
    files: dict[str, str] = Field(default_factory=dict)
    records: dict[str, str]

    @property
    def idi(self) -> IDI | None:
        """1 is Original; 0 the references or, without one, a network with random weights. None if not assessed."""
        return None if self.inside is None else self.inside.idi

    def markdown(self) -> str:
        """The report as plain text, in the order of the page: the verdict, the evidence, how it was made and is checked."""
        found = {
            role_name(role): Reading(self.metrics[role], notes=self.notes.get(role, {}))
            for role in roles_in(self.metrics)
        }
        table = metrics_table(found, title=safe(subject(self)), reference=self.against != "none")
        index = None if self.idi is None or self.idi.value is None else self.idi
        return plain("report.md", self, index=index, metrics=table.markdown().rstrip("\n"))


UNKNOWN = "it was not measured"


def audit_report(records: Mapping[str, Record], *, rules: Rules, about: Mapping[str, Any] | None = None) -> AuditReport:
    """The report on the record called `unlearned`: arithmetic on what the records hold, nothing is fitted.

    `records` go by role: unlearned, original and reference, reference2, ...; without a reference, random. The kind
    of access, of reference, and what was not assessed are what the records show; `about` is what they do not hold.
    """
    read = {role: compare.readings_of(records[role]) for role in roles_in(records)}
    own, task = read["unlearned"], records["unlearned"].setting.task
    if task is None:
        raise InputError(
            f"the record of {records['unlearned'].name} does not say what was to be forgotten; measure it again"
        )
    _refuse(read, records, task, rules, about or {})
    facts = _facts(records, task)
    tier = cast(Tier, " and ".join(sorted(records["unlearned"].method.saved)) or "weights")
    against: Against = "none"
    if "reference" in records:
        against = "model" if records["reference"].method.proxy is None else "proxy"
    inside, tests = find_inside(read, task, rules), find_tests(read)
    loss, like = find_loss(read, task, against), find_likeness(read, task, rules)
    # The weights that Original's training started from: a third anchor, where they were given.
    begun = find_inside({**read, "unlearned": read["start"]}, task, rules) if "start" in read else None
    start = None if begun is None else begun.idi
    seen, caveats = find_witnesses(read, task), find_caveats(read, task, rules, inside, start)
    result = compare.verdict(
        inside=inside, outputs=forget_side(read, task) if against == "none" else tests.get("outputs"), loss=loss,
        likeness=like, witnesses=seen, caveats=caveats, against=against, rules=rules,
        canonical="structure" in own and bool(own["structure"].arrays["canonical"][0]),
    )  # fmt: skip
    all_metrics = _metrics(read, inside)
    accuracy = (read[role].get("accuracy", Reading({})).values for role in ("unlearned", "original"))
    return AuditReport(
        verdict=result.word,
        findings=result.findings,
        sentence=result.sentence,
        limits=(*result.limits, *laxer(rules, len(references_in(records))), *easier(facts["measures"])),
        remedies=result.remedies,
        tier=tier,
        against=against,
        rules=rules,
        inside=inside,
        likeness=like,
        witnesses=seen,
        caveats=caveats,
        excess=find_excess(read, task),
        start=start,
        curves=curve_parts(read),
        residue=find_residue(read, task, None if inside is None else inside.idi),
        loss=loss,
        tests=tests,
        # Saved outputs do not say what was forgotten; less is asked of random samples, and holds for classes too.
        guards=compare.guards(*accuracy, scenario=task.scenario or "random", samples=task.size("forget")),
        metrics={role: dict(reading.values) for role, reading in all_metrics.items()},
        notes={role: dict(reading.notes) for role, reading in all_metrics.items() if reading.notes},
        not_assessed=_not_assessed(read, tier, records),
        about=dict(about or {}) | facts,
        models={role: weights for role in read if (weights := records[role].method.weights)},
        files={role: file for role in read if (file := records[role].method.file)},
        records={role: records[role].sha256 for role in read},
    )


def _refuse(
    read: Readings, records: Mapping[str, Record], task: TaskFacts, rules: Rules, about: Mapping[str, Any]
) -> None:
    """Refuse records of several audits, an audit that departed from its plan, and a reference that saw the forgotten class."""
    unlearned = records["unlearned"]
    for role, record in records.items():
        if (record.setting.task, record.seeds.get("audit")) != (task, unlearned.seeds.get("audit")):
            raise InputError(f"the records of {role} and unlearned are not of one audit")
    if "plan" in about and (wrong := departures(Plan.model_validate(about["plan"]), records, rules)):
        raise InputError(f"the audit departs from its plan: {'; '.join(wrong)}; follow it, or audit without a plan")
    # A reference that answers the forgotten class saw it: it would hide what the audit looks for.
    for role in references_in(read) if task.scenario == "class" else ():
        error = read[role].get("accuracy", Reading({})).values.get("UA")
        if error is None:
            continue
        share = 1 - error
        if share - standard_error(share, task.size("forget")) * Z95 > rules.outputs:
            raise InputError(
                f"{role_name(role)} answers {100 * share:.1f} % of the forgotten class correctly, so it was trained on it; "
                "give a reference that was retrained without it"
            )


def _facts(records: Mapping[str, Record], task: TaskFacts) -> dict[str, Any]:
    """Facts about the audit that the records hold."""
    unlearned = records["unlearned"]
    found: dict[str, Any] = {"command": unlearned.command, "task": task.model_dump(mode="json")}
    if unlearned.setting.network is not None:
        found["network"] = unlearned.setting.network
    if "audit" in unlearned.seeds:
        found["seed"] = unlearned.seeds["audit"]
    if "reference" in records and (proxy := records["reference"].method.proxy) is not None:
        found["proxy"] = {"label": "proxy", "class": "Pretraining", "share": proxy.share} | proxy.fields
    settings = {label: facts.fields for label, facts in unlearned.measures.items() if facts.refused is None}
    return found | {"software": unlearned.software, "measures": json.loads(json.dumps(settings))}


# Parts of an audit: name, reading, and what was given where all models lack the reading.
PARTS = (
    ("white-box", "information", "outputs"),
    ("outputs", "outputs", "features"),
    ("test accuracy", "accuracy", "features"),
)


def _not_assessed(read: Readings, tier: Tier, records: Mapping[str, Record]) -> dict[str, str]:
    """Parts of an audit that the records lack, each with the reason."""
    refused = {label: why for role in reversed(roles_in(records)) for label, why in records[role].refused.items()}
    found: dict[str, str] = {}
    for name, label, given in PARTS:
        compared = ["unlearned", "original", *references_in(read)]
        compared = compared[:2] if label == "accuracy" else compared
        without = [role for role in compared if label not in read[role]]
        if without and tier == "weights":
            found[name] = UNKNOWN
        elif without:
            some = f"nothing that shows it was saved of {' and '.join(without)}"
            found[name] = f"only {given} were given" if without == compared else some
    if tier == "weights":
        found |= {label: UNKNOWN for label in (*EXTRA_READINGS, *refused) if label not in read["unlearned"]}
    else:
        found |= read["unlearned"].get("accuracy", Reading({})).notes
        found["weights"] = "not given, so attacks, recovery, probes and distances were not made"
        if "reference" not in read:
            found["reference"] = "none was given, and no random network can be made of what was saved"
    return {name: refused.get(name, why) if why == UNKNOWN else why for name, why in found.items()}


# Samples that are named: more would be a table that nobody reads.
MOST_SAMPLES = 12


def curve_parts(read: Readings) -> dict[str, CurvePart]:
    """The information of each block of each model."""
    parts = {}
    for role in roles_in(read):
        if curve := compare.curve_in(read[role]):
            known = all(f"I{block}_low" in curve.values for block in curve.blocks)
            intervals = curve.intervals if known else {}
            chance = curve.values.get(f"random{curve.blocks[-1]}")
            parts[role] = CurvePart(ceiling=curve.ceiling, blocks=curve.information, intervals=intervals, random=chance)
    return parts


def find_residue(read: Readings, task: TaskFacts, index: IDI | None) -> ResiduePart | None:
    """Residue by class and by sample in the block with the largest part of the IDI; None without an IDI.

    Where classes were forgotten the critics distinguish forgotten from retained, and samples have these two labels.
    """
    curves = curves_of(read, references_in(read) or ["random"])
    if curves is None or index is None or index.value is None or index.largest is None:
        return None
    unlearned, original, rest = curves
    place = original.blocks.index(index.largest)
    u, o, r = (
        curve.residue(curve.blocks[place]) for curve in (unlearned, original, compare.mean_curve(rest))
    )  # networks of another depth count their blocks otherwise
    labels = unlearned.labels
    classes = [
        ResidueClass(
            label=_label(int(label), task), n=int(own.sum()),
            unlearned=u[own].mean(), original=o[own].mean(), reference=r[own].mean(),
        )
        for label in np.unique(labels)
        for own in [labels == label]
    ]  # fmt: skip
    asked = labels == 1 if task.scenario == "class" else np.ones(len(labels), bool)
    gap = np.where(asked, u - r, -np.inf)
    most = np.argsort(-gap, kind="stable")[:MOST_SAMPLES]
    places = unlearned.arrays.get("index")
    samples = [
        ResidueSample(index=int(places[i]), unlearned=float(u[i]), reference=float(r[i]))
        for i in most
        if places is not None and len(places) == len(u) and gap[i] > 0
    ]
    above = int((gap > 0).sum())
    return ResiduePart(block=index.largest, classes=classes, samples=samples, above=above, forgotten=int(asked.sum()))


def _label(label: int, task: TaskFacts) -> str:
    """The critic's label in words: forgotten or not where classes were forgotten, else the class."""
    if task.scenario == "class":
        names = ", ".join(task.named(each) for each in task.forgotten_classes or [])
        return f"forgotten ({names})" if label else "retained"
    counts = task.splits["forget"].per_class if "forget" in task.splits else None
    present = [each for each, n in enumerate(counts or []) if n]
    return task.named(present[label]) if label < len(present) else f"label {label}"


Readings = Mapping[str, Mapping[str, Reading]]


def curves_of(read: Readings, zeros: Sequence[str]) -> tuple[Curve, Curve, list[Curve]] | None:
    """The curves of the unlearned model, of Original and of what counts as 0; None if one lacks."""
    u, o, *rest = (compare.curve_in(read.get(role, {})) for role in ("unlearned", "original", *zeros))
    if u is None or o is None or not rest or any(curve is None for curve in rest):
        return None
    return u, o, [curve for curve in rest if curve is not None]


def find_inside(read: Readings, task: TaskFacts, rules: Rules) -> Inside | None:
    """Information of the blocks, against the references or, without one, a network with random weights."""
    zeros = references_in(read)
    curves = curves_of(read, zeros or ["random"])
    if curves is None:
        return None
    unlearned, original, rest = curves
    if not zeros:
        # IDI against a network with random weights: nothing is known of retrained models.
        found = Inside(
            compare.idi(unlearned, original=original, reference=rest[0], level=rules.confidence), references=0
        )
    else:
        found = compare.inside(
            unlearned,
            original=original,
            references=rest,
            tolerance=rules.tolerance(len(rest)),
            unseen=task.scenario == "class",
            confidence=rules.confidence,
        )
    moved = [read[role].get("moved") for role in ("unlearned", "original", *zeros)]
    if zeros and None not in moved:
        # IDI of linear critics of the last block on moved images, where all models were read so.
        u, o, *r = (Curve({}, each.arrays, each.about) for each in moved if each is not None)
        tolerance = rules.tolerance(len(r))
        other = compare.inside(u, original=o, references=r, tolerance=tolerance, unseen=False)
        if other.idi.value is not None and other.low is not None and other.high is not None:
            part = Part(other.idi.value, other.low, other.high, tolerance)
            found = dataclasses.replace(found, parts=found.parts | {MOVED: part})
    # Warnings of the curves: critics that were still gaining, or had too few samples.
    named = zip(("unlearned", "original", *(zeros or ["random"])), (unlearned, original, *rest), strict=True)
    notes = (f"{role_name(role)}: {note}." for role, curve in named for note in curve.notes.values())
    some = f"{100 * (task.part or 1):g} % of the retained and test samples were enough; intervals allow for the looks before."
    return dataclasses.replace(found, notes=(*notes, *((some,) if task.part else ())))


def _metrics(read: Readings, found: Inside | None) -> dict[str, Reading]:
    """The metrics of each model; of the start nothing is known but its curve.

    The unlearned model's IDI is at hand, and gives the others': Original's is 1, a reference's its distance from the other
    references. References attack the unlearned model and Original offline, where all have log-odds.
    """
    others = {role: read[role] for role in ("original", "reference") if role in read}
    zeros = references_in(read)
    theirs = [read[role]["log-odds"] for role in zeros if "log-odds" in read[role]]
    made = {}
    for role, readings in read.items():
        if role == "start":
            continue
        index, number = None if found is None else found.idi, references_in([role])
        if found is not None and index is not None and index.value is not None and (role == "original" or number):
            value = 1.0 if role == "original" else 0.0
            if number and found.chance is not None:
                value = found.chance.left_out[zeros.index(role)]
            # Shares of blocks are the unlearned model's.
            index = dataclasses.replace(
                index, value=value, interval=(value, value), blocks={0: value}, block_intervals={},
                id_unlearned=value * index.id_original,
            )  # fmt: skip
        own = compare.metrics(readings, **others, index=index)
        if role in ("unlearned", "original") and "log-odds" in readings and 0 < len(zeros) == len(theirs):
            attacks = compare.offline_attacks(readings["log-odds"], theirs)
            own = Reading({**own.values, **attacks.values}, notes={**own.notes, **attacks.notes})
        made[role] = own
    return made


def find_excess(read: Readings, task: TaskFacts) -> Excess | None:
    """Memory of forgotten samples beyond what is known of test images; where samples were forgotten."""
    curves = curves_of(read, references_in(read))
    if curves is None or task.scenario != "random":
        return None
    unlearned, original, rest = curves
    if any("test_terms" not in curve.arrays for curve in (unlearned, original, *rest)):
        return None
    return compare.excess(unlearned, original=original, reference=compare.mean_curve(rest))


def find_tests(read: Readings) -> dict[str, ThreeSample]:
    """`outputs` on probabilities against every reference, `block l` on profiles against the first; with enough samples."""
    zeros = references_in(read)
    if not zeros:
        return {}
    tests: dict[str, ThreeSample] = {}
    ends = [read[role] for role in ("unlearned", "original")]
    spoken = [*ends, *(read[role] for role in zeros)]
    if all("outputs" in readings for readings in spoken):
        logs = (readings["outputs"].arrays["log_probabilities"] for readings in spoken)
        u, o, *rows = (np.exp(each.astype(np.float64)) for each in logs)
        if len(u) >= FEWEST and all(row.shape == u.shape for row in (o, *rows)):
            # A side is taken only if the tests against all references take it: the largest p-value of each side.
            each = [dataclasses.asdict(compare.three_sample(u, row, o)) for row in rows]
            tests["outputs"] = ThreeSample(
                **{name: float(np.mean([of[name] for of in each])) for name in ("to_reference", "to_original", "error")},
                **{name: max(of[name] for of in each) for name in ("p_reference", "p_original")}, n=len(u),
            )  # fmt: skip
    three = [ends[0], read[zeros[0]], ends[1]]
    if all("representation" in readings for readings in three):
        kept = [readings["representation"].arrays for readings in three]
        for block in sorted(int(key.removeprefix("profile.")) for key in kept[0] if key.startswith("profile.")):
            key = f"profile.{block}"
            if all(key in arrays for arrays in kept) and len(kept[0][key]) >= FEWEST:
                tests[f"block {block}"] = compare.three_sample(*(arrays[key] for arrays in kept))
    return tests


def find_likeness(read: Readings, task: TaskFacts, rules: Rules) -> Likeness | None:
    """UA and divergences beside the references', and UA of slightly changed images where it was measured."""
    zeros = references_in(read)
    shares = _shares(read, "accuracy", "UA")
    if not zeros or shares is None:
        return None
    spoken = all("outputs" in read[role] for role in ("unlearned", *zeros))
    roles = ("unlearned", *zeros) if spoken else ()
    logs = [read[role]["outputs"].arrays["log_probabilities"] for role in roles]
    alike = partial(compare.likeness, n=task.size("forget"), tolerance=rules.outputs, divergence=rules.divergence)
    plain = alike(
        shares[0],
        original=shares[1],
        references=shares[2:],
        outputs={"unlearned": logs[0]} if logs else None,
        outputs_of_references=logs[1:],
    )
    again = _shares(read, "perturbed", "UA_perturbed")
    if again is None:
        return plain
    perturbed = alike(again[0], original=again[1], references=again[2:])
    if (moved := _shares(read, "moved", "UA_moved")) is not None:
        other = alike(moved[0], original=moved[1], references=moved[2:])
        perturbed = dataclasses.replace(perturbed, perturbed=other)
    return dataclasses.replace(plain, perturbed=perturbed)


def _shares(read: Readings, label: str, name: str) -> list[float] | None:
    """This value of the unlearned model, of Original and of the references; None if one lacks it."""
    roles = ("unlearned", "original", *references_in(read))
    values = [read[role][label].values.get(name) if label in read[role] else None for role in roles]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def find_witnesses(read: Readings, task: TaskFacts) -> list[Witness]:
    """Recovery, and the probe of the last block."""
    zeros = references_in(read)
    if not zeros:
        return []
    n = task.size("forget_test" if task.scenario == "class" else "forget")
    witnesses = []
    probes = (name.split(".") for name in read["unlearned"].get("probe", Reading({})).values)
    last = max((int(parts[1]) for parts in probes if len(parts) == 2), default="")
    for label, name in (("recovery", "recovery"), ("probe", f"probe.{last}")):
        known = _shares(read, label, name)
        if not n or known is None:
            continue
        # Standard errors over an attack's own draws: those of the data that a new head is fitted on.
        draws = (read[role][label].arrays.get("draws", np.zeros((0, 2)))[:, 1] for role in ("unlearned", zeros[0]))
        errors = [float(own.std(ddof=1) / np.sqrt(len(own))) if len(own) > 1 else 0.0 for own in draws]
        seen = compare.witness(name, known[0], original=known[1], references=known[2:], n=n, errors=errors)
        witnesses += [seen] if seen else []
    return witnesses


def find_caveats(
    read: Readings, task: TaskFacts, rules: Rules, found: Inside | None, start: IDI | None = None
) -> list[Caveat]:
    """Caveats for the first line: references unlike the others, or that know the forgotten samples; the start's place."""
    zeros = references_in(read)
    accuracy = [read[role].get("accuracy", Reading({})).values for role in zeros]
    outputs = [read[role]["outputs"].arrays["log_probabilities"] for role in zeros if "outputs" in read[role]]
    odd = compare.odd_references(
        {name: [each[name] for each in accuracy] for name in ("RA", "TA") if all(name in each for each in accuracy)},
        outputs if len({each.shape for each in outputs}) == 1 else (),
        found.chance.left_out if found is not None and found.chance is not None else (),
        tolerance=rules.tolerance(len(zeros)), most=rules.outputs, divergence=rules.divergence,
    )  # fmt: skip
    named = [Caveat(f"{role_name(zeros[i])} is unlike the other references ({why})") for i, why in odd]
    for role, values in zip(zeros, accuracy, strict=True):
        if task.scenario != "random" or not {"UA", "TA"} <= values.keys():
            continue
        own, test = 1 - values["UA"], values["TA"]
        errors = standard_error(own, task.size("forget")), standard_error(test, task.size("test"))
        if own - test - Z95 * float(np.hypot(*errors)) > rules.outputs:
            gap = f"{100 * (own - test):.1f} points more of the forgotten samples than of test images"
            named.append(Caveat(f"{role_name(role)} answers {gap}, as if it had seen them"))
    named += _knowing_references(read)
    if found is not None and found.unit is not None and found.unit[2] < MEMORISED:
        unit = f"{found.unit[0]:.2f} of that on the audited ones"
        named.append(
            Caveat(f"Original memorised: its surplus on unseen images is {unit}, so a residue looks smaller than it is")
        )
    made = {role: each["structure"] for role, each in read.items() if "structure" in each}
    if {"unlearned", "original"} <= made.keys():
        before = made["original"]
        others = {role: made[role] for role in references_in(made)}
        named += compare.structure_caveats(made["unlearned"], before, list(others.values()), rules.structure)
        named += [
            Caveat(f"{role_name(role)} has another structure than Original, so blocks are compared by their place")
            for role, each in others.items()
            if not np.array_equal(each.arrays["digest"], before.arrays["digest"])
        ]
    if start is not None and start.interval is not None:
        place = f"{start.value:.2f} ({start.interval[0]:.2f} to {start.interval[1]:.2f})"
        named.append(Caveat(f"The weights that Original's training started from are at {place}"))
    return named


def _knowing_references(read: Readings) -> list[Caveat]:
    """References that order unseen images by the forgotten class nearly as well as Original; of two, neither can be named."""
    shares = _shares(read, "log-odds", "log_odds")
    if shares is None or len(shares) < 5:
        return []
    most, values, named = shares[1], shares[2:], []
    for i, (role, value) in enumerate(zip(references_in(read), values, strict=True)):
        others = float(np.median(np.delete(values, i)))
        if value > (others + most) / 2 > others:
            aucs = f"AUC of its log-odds {value:.2f}, the others' {others:.2f}, Original's {most:.2f}"
            named.append(Caveat(f"{role_name(role)} knows the forgotten class nearly as Original does ({aucs})"))
    return named


# A surplus on unseen images that is clearly below half of that on the audited ones is mostly memory of single images.
MEMORISED = 0.5


def find_loss(read: Readings, task: TaskFacts, against: Against) -> Loss | None:
    """Against the worse of Original and references that had all of the retained data, as a user would do well with."""
    accuracy = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    if any("TA" not in accuracy.get(role, {}) for role in ("unlearned", "original")):
        return None
    before = accuracy["original"]["TA"]
    theirs = [accuracy[role]["TA"] for role in references_in(accuracy) if "TA" in accuracy[role]]
    if against == "model" and theirs:
        before = min(before, float(np.mean(theirs)))
    return compare.accuracy_loss(before, accuracy["unlearned"]["TA"], task.size("test"))


def forget_side(read: Readings, task: TaskFacts) -> Side | Literal["neither"] | None:
    """The side of the accuracy on the forget set, without a reference. None where the records hold no such accuracy, "neither" where it is inconclusive."""
    accuracy = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    if any(not {"UA", "TA"} <= set(accuracy.get(role, {})) for role in ("unlearned", "original")):
        return None
    if task.scenario is None:  # saved outputs do not always show whether classes or samples were forgotten
        return None
    side = forget_accuracy_side(
        1 - accuracy["unlearned"]["UA"],
        original=1 - accuracy["original"]["UA"],
        expected=accuracy["original"]["TA"] if task.scenario == "random" else 0.0,
        n=task.size("forget"),
    )
    return side or "neither"
