"""The verdict: six words, few rules, one pure function. docs/verdict.md has the reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from residua.compare.agreement import Caveat, Likeness, Witness
from residua.compare.information import LEVEL
from residua.compare.references import Inside
from residua.compare.three_samples import Side, ThreeSample
from residua.errors import InputError, printable
from residua.readings import Z95

Word = Literal["FORGOTTEN", "SHALLOW", "NOT_FORGOTTEN", "OVER_UNLEARNED", "UTILITY_LOST", "UNDETERMINED"]
Against = Literal["model", "proxy", "none"]
Outputs = ThreeSample | Side | Literal["neither"]
# The three findings. `answers`: it gives answers that a retrained model would not; `reference` and `original`: the
# model that its outputs are closer to, where they cannot be compared with what references answer.
Says = Literal["answers", "original", "reference", "like", "unlike"]
Knows = Literal["more", "less", "within"]
Keeps = Literal["lost", "kept"]

WORDS: dict[Word, str] = {
    "FORGOTTEN": "Nothing found by these critics on these images",
    "SHALLOW": "It no longer says it but still knows it",
    "NOT_FORGOTTEN": "It still knows what was to be forgotten",
    "OVER_UNLEARNED": "It knows less than a model that never saw the data",
    "UTILITY_LOST": "It has lost what it should have kept",
    "UNDETERMINED": "The evidence does not decide",
}
# Readings that a verdict rests on, by what was given of a model. An audit that cannot have one of them is not made.
VERDICT_READINGS = {
    "weights": ("information", "accuracy", "outputs", "perturbed", "representation"),
    "features": ("information",),
    "outputs": ("accuracy", "outputs"),
}
# Readings of the weights that Original started from, which has no vote.
START_READINGS = ("information",)
# Readings beside the verdict of models whose weights are there; what is lacking is named.
EXTRA_READINGS = ("structure", "moved", "class-accuracy", "mia", "log-odds", "weights", "recovery", "probe")
# Tolerated distance of IDI from 0, where nothing else is declared: half of the way to Original where one reference
# cannot show its variance, half of that where several do. docs/verdict.md has its operating characteristics, by which it
# was chosen together with the number of references.
ONE_REFERENCE, SEVERAL_REFERENCES, RECOMMENDED = 0.5, 0.25, 5
MORE_REFERENCES = "more references: repeat --reference FILE for five retrained models, or --reference proxy:0.15x5"


@dataclass(frozen=True)
class Rules:
    """The lines that the verdict draws; all of them are visible settings.

    Args:
        margin: Tolerated IDI, declared before the audit: the whole interval has to be within it. None stands for 0.25,
            and for 0.5 with one reference, where it has to cover the unknown variation between retrainings.
        floor_margin: Without a reference, 0 is a network with random weights, and only models this close to Original
            or to 0 can be named.
        level: Significance level of each one-sided test of outputs.
        utility: Largest tolerated drop in test accuracy (0 to 1).
        outputs: Largest tolerated distance of UA from the references' mean (0 to 1).
        divergence: Largest tolerated JSD from the references, in units of the JSD between references.
        confidence: Confidence level of the intervals of IDI.
        structure: Reason why the model may have another structure than Original; empty if it may not.
    """

    margin: float | None = None
    floor_margin: float = 0.1
    level: float = 0.05
    utility: float = 0.10
    outputs: float = 0.05
    divergence: float = 1.5
    confidence: float = LEVEL
    structure: str = ""

    def __post_init__(self) -> None:
        # A margin of 1 would let Original itself pass.
        most = {
            "floor_margin": 0.5,
            "level": 0.5,
            "utility": 1.0,
            "outputs": 0.5,
            "divergence": 10.0,
            "confidence": 1.0,
        }
        if self.margin is not None:
            most["margin"] = 1.0
        if self.structure != printable(self.structure, 500) or "\n" in self.structure:
            raise InputError(
                "the reason for another structure is one line of printable text, 500 characters at most; shorten it"
            )
        for name, below in most.items():
            if not 0 < getattr(self, name) < below:
                raise InputError(f"{name} is {getattr(self, name)}, expected above 0 and below {below:g}")

    def spending(self, share: float) -> Rules:
        """The same rules for one of several looks, at this share of the probability of an error in all of them together."""
        return replace(self, level=share * self.level, confidence=1 - share * (1 - self.confidence))

    def tolerance(self, references: int) -> float:
        """The IDI that is tolerated with so many references."""
        if self.margin is not None:
            return self.margin
        return ONE_REFERENCE if references < 2 else SEVERAL_REFERENCES


@dataclass(frozen=True)
class Loss:
    """Lost test accuracy with its 95 % interval (0 to 1)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Findings:
    """Answers to the three questions of a verdict; None where the evidence is lacking or does not decide.

    `says`: outputs on the forget set. `knows`: information inside, against the references. `keeps`: test accuracy.
    """

    says: Says | None = None
    knows: Knows | None = None
    keeps: Keeps | None = None


@dataclass(frozen=True)
class Verdict:
    """One word, the findings that it follows from, three lines of text, limits of the evidence, and remedies.

    `sentence` has three lines: the result, its certainty, the first limit. `remedies` say what would decide an
    UNDETERMINED audit.
    """

    word: Word
    findings: Findings
    sentence: str
    limits: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Evidence:
    """Everything that the texts of a verdict mention."""

    inside: Inside | None
    outputs: Outputs | None
    side: Side | None
    loss: Loss | None
    likeness: Likeness | None
    contradicted: tuple[Witness, ...]
    idle: tuple[Witness, ...]
    caveats: tuple[Caveat, ...]
    canonical: bool
    against: Against
    where: Knows | None
    rules: Rules


def verdict(
    *,
    inside: Inside | None,
    outputs: Outputs | None,
    loss: Loss | None,
    likeness: Likeness | None = None,
    witnesses: Sequence[Witness] = (),
    caveats: Sequence[Caveat] = (),
    canonical: bool = False,
    against: Against = "model",
    rules: Rules | None = None,
) -> Verdict:
    """The verdict on one model: the first of these that holds. None stands for what was not assessed.

        1. UTILITY_LOST     test accuracy has fallen by more than `utility`
        2. NOT_FORGOTTEN    outputs are closer to Original's, or it still answers what a retrained model would not
        3. SHALLOW          it knows more than the references and the tolerance, though outputs are like or closer to theirs
           NOT_FORGOTTEN    the same, and outputs do not tell
        4. OVER_UNLEARNED   it knows less than the references, beyond the tolerance, in every part; no witness contradicts
        5. FORGOTTEN        IDI and every part of it within the tolerance, no witness contradicts, no caveat bars it,
                            outputs like the references', utility kept
        6. UNDETERMINED     otherwise

    "More", "less" and "within" are said of the whole interval; where it crosses a line nothing is said. So FORGOTTEN
    needs positive findings, and is never what is left when no difference was found.

    Args:
        inside: IDI against the references or, with `against="none"`, against a network with random weights.
        outputs: Three-sample test of outputs; without a reference, `forget_accuracy_side` or "neither".
        loss: Lost test accuracy (`accuracy_loss`).
        likeness: Outputs on the forget set beside the references'.
        witnesses, caveats: Attacks that can contradict, and findings about the models that the first line names.
        canonical: The audited weights are in canonical form (`measure.structure.canonical_form`).
        against, rules: Kind of reference, and the lines that are drawn; `Rules()` by default.
    """
    rules = rules or Rules()
    side = None if outputs == "neither" else outputs
    if isinstance(side, ThreeSample):
        side = side.closer_to(rules.level)
    where = _where(inside, against, rules)
    contradicted = tuple(each for each in witnesses if inside and each.contradicts(inside.tolerance))
    barred = bool(contradicted) or any(each.bars for each in caveats)
    known = where if where == "more" or not barred else None
    keeps: Keeps | None = None
    if loss is not None and not loss.low <= rules.utility <= loss.high:
        keeps = "lost" if loss.low > rules.utility else "kept"
    says: Says | None = side
    if likeness is not None and (likeness.answers or side != "original"):
        says = "answers" if likeness.answers else "like" if likeness.like else "unlike"
    found = Findings(says, known, keeps)
    word = _word(found, side)
    idle = tuple(each for each in witnesses if inside and not each.assessed(inside.tolerance))
    evidence = _Evidence(
        inside, outputs, side, loss, likeness, contradicted, idle, tuple(caveats), canonical, against, where, rules
    )  # fmt: skip
    to_do = _remedies(evidence) if word == "UNDETERMINED" else ()
    return Verdict(word, found, _three_lines(word, evidence, to_do), _limits(evidence), to_do)


def _word(found: Findings, side: Side | None) -> Word:
    if found.keeps == "lost":
        return "UTILITY_LOST"
    if found.says in ("answers", "original"):
        return "NOT_FORGOTTEN"
    if found.knows == "more":
        return "SHALLOW" if side == "reference" or found.says == "like" else "NOT_FORGOTTEN"
    if found.knows == "less":
        return "OVER_UNLEARNED"
    return "FORGOTTEN" if found == Findings("like", "within", "kept") else "UNDETERMINED"


def accuracy_loss(before: float, after: float, n: int) -> Loss:
    """before - after, two accuracies on n samples, with a 95 % interval (Agresti and Caffo).

    The samples are the same ones, which makes the truth narrower: the interval errs on the wide side.
    """
    p, q = ((share * n + 1) / (n + 2) for share in (before, after))
    error = Z95 * math.sqrt((p * (1 - p) + q * (1 - q)) / (n + 2))
    return Loss(before - after, p - q - error, p - q + error)


def forget_accuracy_side(unlearned: float, *, original: float, expected: float, n: int) -> Side | None:
    """The side of the accuracy on the forget set, without a reference: nearer `expected` or nearer Original's.

    `expected` is the accuracy of a model that never saw the data: 0 for a forgotten class, Original's
    test accuracy for forgotten samples. The 95 % interval (Wilson) must be on one side of the middle, and
    the two ends must be 0.1 apart, else it is inconclusive.
    """
    if original - expected < 0.1:
        return None
    centre = (unlearned + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(unlearned * (1 - unlearned) / n + Z95**2 / (4 * n**2))
    middle = (original + expected) / 2
    if centre + half < middle:
        return "reference"
    return "original" if centre - half > middle else None


def _where(inside: Inside | None, against: Against, rules: Rules) -> Knows | None:
    if inside is None or inside.idi.interval is None:
        return None
    if against == "none":
        low, high = inside.idi.interval
        if low > 1 - rules.floor_margin:
            return "more"
        return "less" if high < rules.floor_margin else None
    if inside.knows_more:
        return "more"
    if inside.knows_less:
        return "less"
    return "within" if inside.passes else None


def _three_lines(word: Word, evidence: _Evidence, remedies: tuple[str, ...]) -> str:
    """Three lines that somebody who is not an engineer can read."""
    attacks, loss = [], "test accuracy: not assessed"
    for each in evidence.contradicted:
        kind, _, block = each.name.partition(".")
        attack = f"a {kind} of block {block}" if block else f"an attack by {kind}"
        regained = f"{each.value:.2f} of what it regains from Original ({each.low:.2f} to {each.high:.2f})"
        attacks.append(f"{attack} regains {regained}")
    if evidence.idle:
        idle = ", ".join(f"{each.name} (half-width {each.half:.2f})" for each in evidence.idle)
        attacks.append(f"not assessed for want of power: {idle}")
    if evidence.loss is not None:
        change, bound = (
            round(-100 * each, 1) + 0.0 for each in (evidence.loss.value, evidence.loss.high)
        )  # never -0.0
        limit = f"limit -{100 * evidence.rules.utility:g}"
        loss = f"test accuracy {change:+.1f} points (95 % bound {bound:+.1f}; {limit})"
    sure = [_margin(evidence), _outputs(evidence), *attacks, loss]
    lines = [
        " ".join([f"{WORDS[word]}: {_inside(evidence)}.", *(f"{each.text}." for each in evidence.caveats)]),
        f"How sure: {'; '.join(part for part in sure if part)}.",
        f"Not shown: {_limits(evidence)[0]}",
    ]
    if remedies:
        lines[1] += f" What would decide it: {'; or '.join(remedies)}."
    return "\n".join(lines)


def _inside(evidence: _Evidence) -> str:
    inside = evidence.inside
    if inside is None:
        return "white-box: not assessed"
    index = inside.idi
    if index.value is None or index.interval is None:
        return f"there is no IDI ({index.reason})"
    low, high = index.interval
    interval = f"{100 * evidence.rules.confidence:g} % interval {low:.2f} to {high:.2f}"
    if evidence.against == "none":
        return (
            f"of what Original knows beyond a random network it keeps {index.value:.2f}, {interval}; there is no "
            "reference, so the claim is weak"
        )
    kind = "retrained" if evidence.against == "model" else "proxy"
    if inside.resolution is None:
        return (
            f"IDI {index.value:.2f}, {interval}, where 0 is what one {kind} model knows and 1 what Original knows; "
            "the variation between retrainings is unknown"
        )
    return (
        f"IDI {index.value:.2f}, {interval}, where 0 is what {inside.references} {kind} models know and 1 what Original "
        f"knows; smallest detectable IDI: {inside.resolution:.2f} (95 % power)"
    )


def _margin(evidence: _Evidence) -> str:
    """The interval beside the margin, and the parts that are not within it."""
    inside, rules = evidence.inside, evidence.rules
    if inside is None or inside.idi.value is None:
        return ""
    if evidence.against == "none":
        line = rules.floor_margin
        return {"more": f"the interval is above {1 - line:g}", "less": f"the interval is below {line:g}"}.get(
            evidence.where or "",
            f"the interval is not clearly above {1 - line:g} or below {line:g}, and between them a model that never "
            "saw the data may be too",
        )
    text = {
        "more": f"the interval is above the tolerance of {inside.tolerance:g}",
        "less": f"the interval is below minus the tolerance of {inside.tolerance:g}",
        "within": f"the interval is within the tolerance of {inside.tolerance:g}",
    }.get(evidence.where or "", f"the interval is not within the tolerance of {inside.tolerance:g}")
    if evidence.where is None and inside.outside:
        parts = (f"{name} {inside.parts[name].value:.2f}" for name in inside.outside)
        text = f"not within the tolerance of {inside.tolerance:g}: {', '.join(parts)}"
    weak = [name for name, part in inside.parts.items() if not part.powerful]
    text += f"; without power: {', '.join(weak)}" if weak else ""
    if evidence.where == "more" and (inside.low or 0.0) <= inside.tolerance:
        text = f"the IDI of single blocks, or of unseen images, is above the tolerance of {inside.tolerance:g}"
    if inside.chance is not None and inside.p is not None:
        least = f", the least that {inside.references} references can give" if inside.place == 1 else ""
        text += (
            f"; standard deviation of the references' IDI {inside.chance.measured:.2f}; rank {inside.place} of "
            f"{inside.references + 1} among model and references (exact p = {inside.p:.2f}{least})"
        )
    if evidence.against == "proxy":
        text += "; a proxy is trained on a part of the retained data, so the claim is weaker"
    return text


ERRORS = "forget-set error {:.1f} % (references: {:.1f} %)"


def _outputs(evidence: _Evidence) -> str:
    outputs, side, rules = evidence.outputs, evidence.side, evidence.rules
    if evidence.against == "none":
        if outputs is None:
            return "accuracy on the forget set: not assessed"
        if side is None:
            return "accuracy on the forget set is inconclusive"
        whose = "Original's" if side == "original" else "that of a model that never saw it"
        return f"accuracy on the forget set is nearer {whose}"
    texts = []
    if isinstance(outputs, ThreeSample):
        p = outputs.p_original if side == "original" else outputs.p_reference
        near = "not clearly closer to the references' than to Original's"
        if side:
            near = "closer to the references'" if side == "reference" else "closer to Original's"
        value = "< 0.0001" if p < 1e-4 else f"= {p:.4f}"
        test = f"three-sample test on {outputs.n} forgotten samples, p {value}, significance level {rules.level:g}"
        texts.append(f"outputs are {near} ({test})")
    like = evidence.likeness
    if like is not None:
        divergence = "" if like.jsd is None else f", JSD {like.jsd:.3f} (limit {like.jsd_allowed:.3f})"
        errors = ERRORS.format(100 * like.ua, 100 * like.expected)
        texts.append(f"{errors}{divergence}, {'consistent' if like.like else 'inconsistent'}")
        moved = like.perturbed.perturbed if like.perturbed else None
        for words, other in (("with a little noise on the images", like.perturbed), ("on moved images", moved)):
            if other is not None and not replace(other, perturbed=None).like:
                texts.append(f"{words}, {ERRORS.format(100 * other.ua, 100 * other.expected)}")
    return "; ".join(texts) or "outputs: not assessed"


def _limits(evidence: _Evidence) -> tuple[str, ...]:
    """Limits of the evidence; the first is the third line."""
    texts = [
        "Only these models, images and critics were tested, and references and Original were trusted; triggers and other "
        f"inputs, keyed codes,{'' if evidence.canonical else ' weights and bits that no input uses,'} copies and backups "
        "were not looked at."
    ]
    inside = evidence.inside
    if inside is None:
        texts.append("Outputs alone cannot distinguish a model that forgot from one that only keeps silent.")
    elif inside.chance is not None:
        texts.append(
            "The interval covers samples"
            + (", critics" if inside.idi.restarts is not None else "")
            + f" and the variation between retrainings, from {inside.references} references and what is known of others."
        )
    elif evidence.against != "none":
        texts.append(
            "The interval covers samples"
            + (" and critics" if inside.idi.restarts is not None else ", not critics (one restart)")
            + "; one reference does not show the variation between retrainings, which the margin has to cover."
        )
    if evidence.against == "none":
        texts.append(
            "Without a reference, FORGOTTEN is never returned: there is no baseline for what a model that never saw "
            "the data would know."
        )
    if evidence.against == "proxy":
        texts.append(
            "A proxy was trained for this audit on a part of the retained data; it stands in for a model retrained on all of "
            "them, and may know less than that for want of data."
        )
    return (*texts, *(() if inside is None else inside.notes))


def _remedies(evidence: _Evidence) -> tuple[str, ...]:
    """Further evidence that would decide it, with what to type."""
    inside, likeness, loss = evidence.inside, evidence.likeness, evidence.loss
    if evidence.against == "none":
        return ("a reference: --reference FILE of a model that never saw the data, or --reference proxy:0.15x3",)
    texts = []
    if inside is None:
        texts.append(
            "the weights: residua audit --original FILE --unlearned FILE --reference FILE --data NAME --forget WHAT"
        )
    elif inside.idi.value is None:
        texts.append("more data, or --restarts 3: Original does not clearly know more than the references")
    elif evidence.where != "within":
        texts += _tolerances(inside)
    if inside is not None and likeness is None:
        texts.append("outputs with their labels: --outputs")
    elif likeness is not None and not likeness.like:
        texts.append("nothing that could be measured more: what it answers is not what the references answer")
    if inside is not None and loss is None:
        texts.append("test data with labels")
    elif loss is not None and loss.high >= evidence.rules.utility >= loss.low:
        texts.append("more test data")
    return tuple(texts) or ("a closer look at what contradicts: residua measure",)


def _tolerances(inside: Inside) -> list[str]:
    """The number of references that would do, and the tolerance at which this audit could clear."""
    texts = []
    if inside.references == 1:
        texts.append(MORE_REFERENCES)
    elif inside.enough:
        texts.append(f"{inside.enough} references in all, if IDI and their spread stay (repeat --reference FILE)")
    else:
        texts.append(f"more data of what was to be forgotten: at {inside.tolerance:g} no number of references would do")
    at = inside.clears_at
    if at is not None and at < 1:
        # Rounded up, since at the rounded value the interval has to be within it.
        texts.append(f"a tolerance of {math.ceil(100 * at) / 100:.2f}, declared beforehand (--margin)")
    return texts
