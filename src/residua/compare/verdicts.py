"""The verdict: six words, few rules, one pure function. docs/verdict.md has the reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from residua.compare.agreement import Likeness, Witness
from residua.compare.information import IDI
from residua.compare.references import Z95, Inside
from residua.compare.rules import Against, Evidence, Loss, Outputs, Rules, Where, Word
from residua.compare.sentences import WORDS, limits, remedies, three_lines
from residua.compare.three_samples import Side, ThreeSample

__all__ = [
    "WORDS",
    "Against",
    "Loss",
    "Rules",
    "Verdict",
    "Word",
    "accuracy_loss",
    "against_random",
    "forget_accuracy_side",
    "verdict",
]


@dataclass(frozen=True)
class Verdict:
    """One word, three lines (what was found, how sure, what it does not show), and what would decide it."""

    word: Word
    sentence: str
    limits: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


def verdict(
    *,
    inside: Inside | None,
    outputs: Outputs | None,
    loss: Loss | None,
    likeness: Likeness | None = None,
    witnesses: Sequence[Witness] = (),
    against: Against = "model",
    rules: Rules | None = None,
) -> Verdict:
    """The verdict on one model. None stands for what was not assessed.

    `inside` is measured against the references or, with `against="none"`, against a network with random
    weights. `outputs` is the three-sample test on outputs; without a reference, the side that the
    accuracy on the forget set is on (`forget_accuracy_side`), or "neither".

    In this order, and the first that holds:

        1. UTILITY_LOST     test accuracy has fallen by more than `utility`
        2. NOT_FORGOTTEN    outputs are closer to Original's, or it still answers what a retrained model would not
        3. SHALLOW          it knows more than the references and the tolerance, though outputs are like or closer to theirs
           NOT_FORGOTTEN    the same, and outputs do not tell
        4. OVER_UNLEARNED   it knows less than the references, beyond the tolerance, in every part; no witness contradicts
        5. FORGOTTEN        IDI and every part of it within the margin, no witness contradicts, outputs like the
                            references', utility kept
        6. UNDETERMINED     otherwise

    "More", "less" and "within" are said of the whole interval: each is a test, and where the
    interval crosses a line nothing is said. So FORGOTTEN needs positive findings, and is never what is left
    when no difference was found.
    """
    rules = rules or Rules()
    side = side_of(outputs, rules)
    where = _where(inside, against, rules)
    contradicted = [each for each in witnesses if inside and each.contradicts(inside.tolerance)]
    like = likeness is not None and likeness.like
    word: Word
    if loss is not None and loss.low > rules.utility:
        word = "UTILITY_LOST"
    elif side == "original" or (likeness is not None and likeness.answers):
        word = "NOT_FORGOTTEN"
    elif where == "more":
        word = "SHALLOW" if side == "reference" or like else "NOT_FORGOTTEN"
    elif where == "less" and not contradicted:
        word = "OVER_UNLEARNED"
    elif where == "within" and like and not contradicted and loss is not None and loss.high < rules.utility:
        word = "FORGOTTEN"
    else:
        word = "UNDETERMINED"
    evidence = Evidence(inside, outputs, side, loss, likeness, tuple(contradicted), against, where, rules)
    to_do = remedies(evidence) if word == "UNDETERMINED" else ()
    return Verdict(word, three_lines(word, evidence, to_do), limits(evidence), to_do)


def side_of(outputs: Outputs | None, rules: Rules) -> Side | None:
    if isinstance(outputs, ThreeSample):
        return outputs.closer_to(rules.level)
    return None if outputs == "neither" else outputs


def accuracy_loss(before: float, after: float, n: int) -> Loss:
    """before - after, two accuracies on n samples, with a 95 % interval (Agresti and Caffo).

    The samples are the same ones, which makes the truth narrower: the interval errs on the wide side.
    """
    p, q = ((share * n + 1) / (n + 2) for share in (before, after))
    error = Z95 * math.sqrt((p * (1 - p) + q * (1 - q)) / (n + 2))
    return Loss(before - after, p - q - error, p - q + error)


def forget_accuracy_side(unlearned: float, *, original: float, expected: float, n: int) -> Side | None:
    """Without a reference: is the accuracy on the forget set nearer `expected` or nearer Original's?

    `expected` is what a model that never saw the data would have: 0 for a forgotten class, Original's
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


def _where(inside: Inside | None, against: Against, rules: Rules) -> Where | None:
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


def against_random(idi: IDI) -> Inside:
    """Where 0 is a network with random weights, and nothing is known of retrained models."""
    return Inside(idi, references=0)
