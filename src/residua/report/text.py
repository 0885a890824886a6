"""Plain words for an audit: what a reader who knows nothing of the method is told first, on the page and in report.md."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Literal

from residua.compare.agreement import Witness
from residua.compare.verdicts import WORDS, Keeps, Knows, Rules, Says
from residua.errors import printable
from residua.record import TaskFacts
from residua.report.table import with_interval
from residua.roles import references_in, roles_in
from residua.text import whole_number

if TYPE_CHECKING:
    from residua.report.audit import AuditReport

TEMPLATES = Path(__file__).parent / "templates"
Tone = Literal["good", "bad", "open"]
Outcome = Literal["passed", "failure", "error", "skipped"]
# Verdicts as readers see them: the word, and how it is toned.
TONES: dict[str, Tone] = {"FORGOTTEN": "good", "UNDETERMINED": "open"}
SENTENCES = ("What was found", "How sure", "Not shown")


@dataclass(frozen=True)
class Fact:
    """One of the three questions that a verdict answers: the question, the answer in a few words, the numbers behind it."""

    question: str
    answer: str
    numbers: str
    tone: Tone
    assessed: bool = True

    @property
    def outcome(self) -> Outcome:
        """The finding as a test result: what was assessed and does not decide is an error, never skipped."""
        outcomes: dict[Tone, Outcome] = {"good": "passed", "bad": "failure", "open": "error"}
        return outcomes[self.tone] if self.assessed else "skipped"


def sentences(report: AuditReport) -> list[tuple[str, str, list[str]]]:
    """The three sentences of the verdict, each with its name, as a whole and in parts."""
    found = []
    for name, line in zip(SENTENCES, report.sentence.split("\n"), strict=False):
        if line := line.removeprefix(f"{name}: "):
            parts = re.split(r"; (?![^()]*\))", line.rstrip("."))  # semicolons within brackets do not separate
            found.append((name, line[0].upper() + line[1:], [f"{part[:1].upper()}{part[1:]}." for part in parts]))
    return found


# What a model is compared with; each kind has one noun.
A_REFERENCE = {"model": "a retrained model", "proxy": "a proxy", "none": "a network with random weights"}
# The answers to the three questions, with their tones; {one} is what the model is compared with.
ANSWERS: dict[Says | Knows | Keeps, tuple[str, Tone]] = {
    "answers": ("Yes, it still answers", "bad"),
    "original": ("Yes, its answers are closer to those from before", "bad"),
    "reference": ("No, or hardly any more", "good"),
    "like": ("No, like {one}", "good"),
    "unlike": ("{gone}, but not like {one}", "open"),
    "more": ("Yes, it still knows it", "bad"),
    "less": ("Less than {one}", "bad"),
    "within": ("No, like {one}", "good"),
    "lost": ("No, it lost too much", "bad"),
    "kept": ("Yes", "good"),
}
WITHOUT_REFERENCE: dict[Knows | None, tuple[str, Tone]] = {
    "more": ("Yes, nearly all that it knew before", "bad"),
    "less": ("Next to nothing is left", "open"),
    None: ("Inconclusive without a reference", "open"),
}
UNCLEAR: tuple[str, Tone] = ("It is not clear", "open")
ALONE: tuple[str, Tone] = ("There is nothing to compare its answers with", "open")


def facts(report: AuditReport) -> list[Fact]:
    """The three findings of the verdict in words: outputs, inside, utility."""
    found, like, index, one = report.findings, report.likeness, report.idi, A_REFERENCE[report.against]
    # The literal question first; then whether the answers are those of the references.
    question = "Does it still say it?"
    errors = [report.metrics.get(role, {}).get("UA") for role in ("unlearned", "original")]
    own, other = errors if like is None else (like.ua, like.expected)
    if own is None or other is None:
        why = "What it answers on the forgotten data was not given."
        says = Fact(question, "Not assessed", why, "open", assessed=False)
    else:
        right, theirs = (f"{100 * x:.0f} %" if x in (0.0, 1.0) else f"{100 * x:.1f} %" for x in (1 - own, 1 - other))
        whose = "before" if like is None else f"by {one}"
        numbers = f"{right} of the forgotten images are still answered correctly; {whose}, {theirs}."
        if found.says == "unlike":
            numbers += f" What it answers instead is unlike what {one} answers."
        answer, tone = ANSWERS[found.says] if found.says else ALONE
        answer = answer.format(one=one, gone="No" if own >= other - report.rules.outputs else "In part")
        says = Fact(question, answer, numbers, tone, assessed=found.says is not None)
    question = "Does it still know it, inside?"
    if index is None:
        knows = Fact(question, "Not assessed", "The inside of the model was not given.", "open", assessed=False)
    elif index.value is None or index.interval is None:
        why = f"Before, it did not clearly know more than {one}."
        knows = Fact(question, "Inconclusive", why, "open")
    else:
        answer, tone = ANSWERS[found.knows] if found.knows else UNCLEAR
        if report.against == "none":
            answer, tone = WITHOUT_REFERENCE.get(found.knows, (answer, tone))
        numbers = (
            f"IDI {with_interval(index.value, index.interval)}: 1 is what the model knew before, 0 what {one} knows."
        )
        knows = Fact(question, answer.format(one=one), numbers, tone)
    question, loss = "Is it still useful?", report.loss
    if loss is None:
        keeps = Fact(question, "Not assessed", "Its accuracy on test data was not given.", "open", assessed=False)
    else:
        numbers = (
            f"Test accuracy on everything else changed by {round(-100 * loss.value, 1) + 0.0:+.1f} points; a loss of "
            f"{100 * report.rules.utility:g} points is allowed."
        )
        answer, tone = ANSWERS[found.keeps] if found.keeps else UNCLEAR
        keeps = Fact(question, answer, numbers, tone)
    return [says, knows, keeps]


def contradicts(report: AuditReport, witness: Witness) -> bool:
    return report.inside is not None and witness.contradicts(report.inside.tolerance)


def attack_result(report: AuditReport, witness: Witness) -> str:
    """The contradiction by an attack, or the value from which on it would have contradicted."""
    tolerance = report.inside.tolerance if report.inside else report.rules.tolerance(1)
    if contradicts(report, witness):
        return "contradicts"
    power = f"would contradict above {witness.power(tolerance):.2f}"
    return f"agrees; {power}" if witness.assessed(tolerance) else f"not assessed for want of power; {power}"


def resolution(report: AuditReport) -> str:
    """The sensitivity of this audit in one sentence."""
    if report.idi is None:
        return "The inside was not assessed, so a model that only keeps silent and one that forgot look the same."
    if report.against == "none":
        return "There is no reference, so this audit can accuse a model and can never clear it."
    found = report.inside
    one, many = ("One retrained model", "retrained models") if report.against == "model" else ("One proxy", "proxies")
    if found is None or found.resolution is None:
        return (
            f"{one} is the reference: how much {many} differ from each other is unknown, and small residues cannot be "
            "distinguished from that."
        )
    return (
        f"{found.references} {many} are the references: the smallest detectable IDI is {found.resolution:.2f} "
        "(95 % power); a smaller residue may be missed."
    )


def task_of(report: AuditReport) -> TaskFacts:
    return TaskFacts.model_validate(report.about.get("task") or {"splits": {}})


def forgotten(report: AuditReport) -> list[str]:
    """The data to be forgotten, class by class: `class 3, cat: 281 images`."""
    task = task_of(report)
    counts = task.splits["forget"].per_class if "forget" in task.splits else None
    if not counts:
        return [f"{task.size('forget')} examples"]
    return [f"{task.named(label)}: {n} images" for label, n in enumerate(counts) if n]


def subject(report: AuditReport) -> str:
    """The audit in a few words: the data, and what was to be forgotten."""
    task, parts = task_of(report), forgotten(report)
    what = parts[0] if len(parts) == 1 else f"{task.size('forget')} images of {len(parts)} classes"
    return f"{task.dataset or 'Data that stayed with their owner'} · to be forgotten: {what}"


def role_name(role: str) -> str:
    """Reference2 becomes Reference 2."""
    number = role.removeprefix("reference") if references_in([role]) else ""
    return f"Reference {number}" if number else role.capitalize()


ACCESS = {
    "weights": "the weights of all models",
    "features and outputs": "features and outputs that the owner saved",
    "features": "features that the owner saved",
    "outputs": "outputs that the owner saved",
}


def provenance(report: AuditReport) -> list[tuple[str, str]]:
    """Terms and what stands under them, the most asked for first. What is typed by people is taken on trust."""
    about, task = report.about, task_of(report)
    typed = part_of(about, "typed")
    sizes = ", ".join(f"{split.n} {name.replace('_', ' ')}" for name, split in task.splits.items())
    models = {
        role: (
            str(typed.get("init" if role == "start" else role) or ""),
            f"SHA-256 of the file {report.files[role]}" if report.files.get(role) else "",
            f"weights {report.models[role][:16]}" if report.models.get(role) else "",
        )
        for role in roles_in(report.records)
    }
    images = None
    if task.shape and task.mean and task.std:  # as the models saw them
        mean, std = (", ".join(f"{value:.3f}" for value in values) for values in (task.mean, task.std))
        size = " x ".join(map(str, task.shape))
        images = f"{size}, normalised by mean {mean} and standard deviation {std}"
    rules = {
        name: "by the number of references" if value is None else value if name == "structure" else format(value, "g")
        for name, value in dataclasses.asdict(report.rules).items()
        if value != ""
    }
    rows = [
        ("Made by", typed.get("by")),
        ("Made on", typed.get("when")),
        ("Version", part_of(about, "software")),
        *((f"{role_name(role)} model", ", ".join(filter(None, parts))) for role, parts in models.items()),
        ("Given", ACCESS[report.tier]),
        ("Data", typed.get("data") or task.dataset),
        ("Examples", sizes),
        ("Images", images),
        ("To be forgotten", "; ".join(forgotten(report))),
        ("Hash of the task", task.sha256),
        ("Network", part_of(about, "network")),
        ("Rules", rules),
        ("Seed", str(about["seed"]) if "seed" in about else None),
        ("Planned before", f"the plan {plan_digest(about['plan'])}" if "plan" in about else None),
        ("Command", about.get("command")),
    ]
    return [
        (term, ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, dict) else str(value))
        for term, value in rows
        if value
    ]


def hashes(report: AuditReport) -> list[tuple[str, str, str]]:
    """Role, hash of the weights (or nothing), hash of the record."""
    return [(role_name(role), report.models.get(role, ""), report.records[role]) for role in roles_in(report.records)]


def laxer(rules: Rules, references: int) -> list[str]:
    """The rules that are laxer than the defaults, each in a sentence.

    Most tolerate more where they are larger. An interval tolerates more where its confidence is lower, and a test of
    outputs finds less of Original in them where its level is lower than what the interval errs with.
    """
    usual = dataclasses.replace(Rules(), margin=Rules().tolerance(references))
    lax = [
        name
        for name in ("margin", "floor_margin", "level", "utility", "outputs", "divergence")
        if (getattr(rules, name) or 0.0) > getattr(usual, name)
    ]
    if rules.confidence < usual.confidence:
        lax.append("confidence")
    if rules.level < 0.99 * min(1 - rules.confidence, usual.level):
        lax.append("level")
    found = [
        f"The rule {name} is {getattr(rules, name):g}, laxer than the usual {getattr(usual, name):g}." for name in lax
    ]
    if rules.structure:
        found.append(f"The rule structure admits another structure than Original's, because: {rules.structure}.")
    return found


# Settings that are usual where a model is asked otherwise than by the images as they are.
USUAL = {"moved": {"shift": 1, "crop": 0.125}, "perturbed": {"noise": 0.05}}


def easier(measures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Images that were moved or disturbed less than usual, which a model may be prepared for, each in a sentence.

    Args:
        measures: The settings of each measure, by its label.
    """
    found = []
    for label, own in USUAL.items():
        for name, usual in own.items() if label in measures else ():
            given = measures[label].get(name)
            number = given if isinstance(given, int | float) else 0.0
            if not number >= usual:
                found.append(
                    f"The setting {name} of the measure {label} is {number:g}, less than the usual {usual:g}: a model may be "
                    "prepared for such images."
                )
    return found


def plan_digest(plan: Any) -> str:
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def part_of(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = about.get(name)
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Known:
    """IDI of methods as the paper prints it, of what, and of a network with random weights if it has that."""

    setting: str
    methods: dict[str, float]
    random: float | None = None

    @property
    def sentence(self) -> str:
        ranked = sorted(self.methods.items(), key=lambda item: item[1])
        values = ", ".join(f"{name} {value:.2f}" for name, value in ranked)
        drawn = f"; a network with random weights {self.random:.2f}" if self.random is not None else ""
        return f"In the paper, {self.setting}: {values}{drawn}. Other data and another network: for orientation only."


# Tables single_class_cifar10, main_baseline (HD) and main_white (Random); a test compares them with reproduction/tables.csv.
CLASS = Known(
    "one class of CIFAR-10, ResNet-18",
    {
        "COLA": 0.010, "SCRUB": -0.056, "CF-10": -0.060, "EU-10": -0.349, "l1-sparse": 0.293, "GA": 0.334, "EU-5": 0.528,
        "FT": 0.671, "CF-5": 0.675, "RL": 0.830, "SALUN": 0.936, "HD": 1.0, "Bad-T": 1.014,
    },
    random=-1.281,
)  # fmt: skip
# Table random_sample_unlearning.
SAMPLES = Known(
    "random samples of CIFAR-10, ResNet-18",
    {
        "COLA+": 0.024, "FT": -0.069, "RL": 0.084, "GA": 0.924, "Bad-T": 0.939, "EU-10": -0.110, "CF-10": 0.219,
        "SCRUB": 0.322, "SALUN": 0.861, "l1-sparse": -0.157,
    },
)  # fmt: skip


def known_methods(report: AuditReport) -> Known | None:
    """Methods of the paper on the same kind of forgetting; none where 0 is not a reference, or what was forgotten is not known."""
    if report.idi is None or report.idi.value is None or report.against == "none":
        return None
    return {"class": CLASS, "random": SAMPLES}.get(task_of(report).scenario or "")


# The treatments in words, in this order; `recovery` and `probe` are measured in every audit of weights.
TREATMENTS = {
    "recovery": "a new head was trained on a little data",
    "stress.retain": "fine-tuning on retained data only",
    "stress.shots1": "one example per class shown",
    "stress.shots5": "5 examples per class shown",
    "stress.shots20": "20 examples per class shown",
    "stress.int8": "weights rounded to 8 bits",
    "stress.int4": "weights rounded to 4 bits",
    "stress.prune30": "30 % of the weights removed",
    "stress.prune60": "60 % of the weights removed",
    "stress.noise": "noise on the images",
}


@dataclass(frozen=True)
class Treatment:
    """Shares of the forgotten that are answered correctly after one treatment."""

    name: str
    words: str
    unlearned: float
    original: float
    references: tuple[float, ...]
    gap: float | None


def treatments(metrics: Mapping[str, Mapping[str, float]]) -> list[Treatment]:
    """Every treatment that was measured of all models."""
    zeros = references_in(metrics)
    own = metrics.get("unlearned", {})
    probes = [name for name in own if name.startswith("probe.") and whole_number(name[6:]) is not None]
    last = max(probes, key=lambda name: int(name[6:]), default="probe")
    names = ["recovery", last, *list(TREATMENTS)[1:]]
    names += [name for name in own if name.startswith("stress.") and name not in TREATMENTS]
    found = []
    for name in names:
        if any(name not in metrics.get(role, {}) for role in ("unlearned", "original", *zeros)):
            continue
        words = "a linear reader of the last block" if name == last else TREATMENTS.get(name, name)
        theirs = tuple(metrics[role][name] for role in zeros)
        gap = own[name] - mean(theirs) if theirs else None
        found.append(Treatment(name, words, own[name], metrics["original"][name], theirs, gap))
    return found


CHECK = (
    "`residua verify DIR`, where DIR is the folder of this file, computes every number again from the records beside it; "
    "with `--rerun` the models themselves are measured again."
)
NOT_CHECKED = (
    "It does not show that the reference never saw the data, or that the rules were chosen before the result was known."
)
HANGING = (
    "An interval is centred on what critics fitted on more data would read, so it can lie above the reading itself."
)
CLOSER = {"reference": "the reference", "original": "Original", None: "not clear"}
# Of many classes, a card names the first.
MOST_CLASSES = 5


def shown(report: AuditReport) -> dict[str, Any]:
    """The content that the page and the plain report share, as their templates name it."""
    # The reading of the critics where there is nothing to read.
    random = [part.random for part in report.curves.values() if part.random is not None]
    words = " Of labels exchanged at random, the same critics read at most {:.3f} nats of the last block."
    return {
        "report": report,
        "word": report.verdict.replace("_", " "),
        "headline": WORDS[report.verdict],
        "sentences": sentences(report),
        "facts": facts(report),
        "resolution": resolution(report),
        "subject": subject(report),
        "treatments": treatments(report.metrics),
        "known": known_methods(report),
        "provenance": provenance(report),
        "hashes": hashes(report),
        "settings": [
            (label, ", ".join(f"{name} {value}" for name, value in fields.items()) or "none")
            for label, fields in part_of(report.about, "measures").items()
            if isinstance(fields, dict)
        ],
        "hanging": HANGING,
        "zero": "references" if references_in(report.metrics) else "random network",
        "role_name": role_name,
        "closer": CLOSER,
        "attack_result": attack_result,
        "random_words": words.format(max(random)) if random else "",
        "check": CHECK,
        "not_checked": NOT_CHECKED,
    }


def card(report: AuditReport, digest: str) -> str:
    """Markdown to paste into the card of the unlearned model.

    Args:
        report: The report of an audit.
        digest: SHA-256 of its report.json.
    """
    typed, version = part_of(report.about, "typed"), part_of(report.about, "software").get("residua")
    made = " by ".join(str(each) for each in (typed.get("when"), typed.get("by")) if each)
    return plain(
        "card.md",
        report,
        digest=digest,
        forgotten=forgotten(report),
        most=MOST_CLASSES,
        data=str(typed.get("data") or task_of(report).dataset or "stayed with their owner"),
        made=", ".join(filter(None, (made, f"residua {version}" if version else ""))),
    )


@functools.cache
def environment(*, autoescape: bool) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def plain(template: str, report: AuditReport, **more: Any) -> str:
    """The report as this template has it, and `more` that it names; every name from a file is text and nothing else."""
    made = environment(autoescape=False)
    made.filters["text"] = safe
    return printable(str(made.get_template(template).render(**shown(report), **more)))


def safe(text: str) -> str:
    """A name from a file, so that it is text and nothing else in Markdown: no markup, no cells of its own, one line."""
    text = " ".join(printable(text, 400).split())
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;")
