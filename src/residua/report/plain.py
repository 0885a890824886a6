"""Plain words for an audit: what a reader who knows nothing of the method is told first, on the page and in report.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from residua.compare.references import UNSEEN
from residua.compare.verdicts import WORDS, forget_accuracy_side
from residua.facts import TaskFacts
from residua.report.audit_parts import references_in

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport

Tone = Literal["good", "bad", "open"]
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


def headline(report: AuditReport) -> str:
    return WORDS[report.verdict]


def tone(report: AuditReport) -> Tone:
    return TONES.get(report.verdict, "bad")


def sentences(report: AuditReport) -> list[tuple[str, str]]:
    """The three sentences of the verdict, each under its own name; reports of 0.1.0 have one."""
    lines = report.sentence.split("\n")
    named = zip(SENTENCES, lines, strict=False)
    bare = ((name, line.removeprefix(f"{name}: ")) for name, line in named if line)
    return [(name, line[0].upper() + line[1:]) for name, line in bare]


def facts(report: AuditReport) -> list[Fact]:
    """What it says, what it knows, what it kept. Three good answers are for a model that passed, and for no other."""
    says, knows, kept = _says(report), _knows(report), _kept(report)
    if report.verdict != "FORGOTTEN" and {says.tone, knows.tone, kept.tone} == {"good"}:
        knows = Fact(knows.question, "It is not clear", knows.numbers, "open")
    return [says, knows, kept]


def _says(report: AuditReport) -> Fact:
    question, like = "Does it still say it?", report.likeness
    if like is not None:
        numbers = (
            f"{_per_cent(1 - like.ua)} of the forgotten images are still answered correctly; by a model that never saw "
            f"them, {_per_cent(1 - like.expected)}."
        )
        if like.answers:
            return Fact(question, "Yes, it still answers", numbers, "bad")
        if like.like:
            return Fact(question, "No, like a model that never saw it", numbers, "good")
        return Fact(question, "Its answers are not those of a model that never saw it", numbers, "open")
    errors = [report.metrics.get(role, {}).get("UA") for role in ("unlearned", "original")]
    if errors[0] is None or errors[1] is None:
        return Fact(question, "Not assessed", "What it answers on the forgotten data was not given.", "open")
    numbers = f"{_per_cent(1 - errors[0])} of the forgotten images are still answered correctly; before, {_per_cent(1 - errors[1])}."
    side = _side(report)
    if side == "original":
        return Fact(question, "Yes, it answers as before", numbers, "bad")
    if side == "reference":
        return Fact(question, "No, or hardly any more", numbers, "good")
    return Fact(question, "There is nothing to compare its answers with", numbers, "open")


def _side(report: AuditReport) -> str | None:
    """Where its answers are, by the test of outputs or, without a reference, by accuracy on the forget set alone."""
    if "outputs" in report.tests:
        return report.tests["outputs"].closer_to
    task, (own, before) = task_of(report), (report.metrics[role] for role in ("unlearned", "original"))
    if task.scenario is None or "TA" not in before or not task.size("forget"):
        return None
    expected = before["TA"] if task.scenario == "random" else 0.0
    return forget_accuracy_side(
        1 - own["UA"], original=1 - before["UA"], expected=expected, n=task.size("forget")
    )


def _knows(report: AuditReport) -> Fact:
    question, index = "Does it still know it, inside?", report.idi
    if index is None:
        return Fact(question, "Not assessed", "The inside of the model was not given.", "open")
    if index.value is None or index.interval is None:
        return Fact(
            question,
            "Inconclusive",
            "Before, it did not clearly know more than a model that never saw the data.",
            "open",
        )
    zero = "a model that never saw it" if index.zero == "reference" else "a network with random weights"
    low, high = index.interval
    numbers = f"IDI {index.value:.2f} ({low:.2f} to {high:.2f}): 1 is what the model knew before, 0 what {zero} knows."
    if report.against == "none":
        line = report.settings.get("floor_margin") or 0.1
        if low > 1 - line:
            return Fact(question, "Yes, nearly all that it knew before", numbers, "bad")
        answer = "Next to nothing is left" if high < line else "Inconclusive without a reference"
        return Fact(question, answer, numbers, "open")
    surplus, (tolerance, margin) = max((index.positive or index.value) - index.value, 0.0), _lines(report)
    parts = {} if report.inside is None else report.inside.parts
    if low + surplus > tolerance or (UNSEEN in parts and parts[UNSEEN].low > tolerance):
        return Fact(question, "Yes, it still knows it", numbers, "bad")
    if high < -tolerance:
        return Fact(question, "Less than a model that never saw it", numbers, "bad")
    if -margin < low and high < margin < 1 and all(part.inside for part in parts.values()):
        return Fact(question, "No, like a model that never saw it", numbers, "good")
    return Fact(question, "It is not clear", numbers, "open")


def _lines(report: AuditReport) -> tuple[float, float]:
    """The tolerance and the margin of the verdict; reports of 0.1.0 have one margin for both."""
    if report.inside is not None:
        return report.inside.tolerance, report.inside.margin
    margin = report.settings.get("margin") or 0.5
    return margin, margin


def _kept(report: AuditReport) -> Fact:
    question, allowed = "Is it still useful?", report.settings.get("utility") or 0.1
    if report.loss is None:
        return Fact(question, "Not assessed", "Its accuracy on test data was not given.", "open")
    value, low, high = report.loss
    change = "did not change"
    if abs(100 * value) >= 0.05:
        change = f"{'fell' if value > 0 else 'rose'} by {abs(100 * value):.1f} points"
    numbers = f"Test accuracy on everything else {change}; a loss of {100 * allowed:g} points is allowed."
    if low > allowed:
        return Fact(question, "No, it lost too much", numbers, "bad")
    return (
        Fact(question, "Yes", numbers, "good")
        if high < allowed
        else Fact(question, "It is not clear", numbers, "open")
    )


def resolution(report: AuditReport) -> str:
    """What this audit can tell, in one sentence."""
    if report.idi is None:
        return "The inside was not assessed, so a model that only keeps silent and one that forgot look the same."
    if report.against == "none":
        return "There is no reference, so this audit can accuse a model and can never clear it."
    kind = "retrained" if report.against == "model" else "proxy"
    found = report.inside
    if found is None or found.resolution is None:
        return (
            f"One {kind} model is the reference: how much such models differ from each other is unknown, and small "
            "residues cannot be distinguished from that."
        )
    return (
        f"{found.references} {kind} models are the references: an IDI of {found.resolution:.2f} or more is distinguished "
        "from a retrained model with probability 0.95, a smaller one may not be."
    )


def task_of(report: AuditReport) -> TaskFacts:
    return TaskFacts.model_validate(report.about.get("task") or {"splits": {}})


def forgotten(report: AuditReport) -> list[str]:
    """What was to be forgotten, class by class: `class 3, cat: 281 images`."""
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


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %" if share in (0.0, 1.0) else f"{100 * share:.1f} %"
