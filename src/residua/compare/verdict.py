"""The verdict: six words, few rules, one pure function. docs/verdict.md says the same in prose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from residua.compare.idi import IDI
from residua.compare.three_sample import Side, ThreeSample
from residua.errors import InputError

Word = Literal["FORGOTTEN", "SHALLOW", "NOT_FORGOTTEN", "OVER_UNLEARNED", "UTILITY_LOST", "UNDETERMINED"]
Against = Literal["model", "proxy", "none"]

Z95 = 1.959964


@dataclass(frozen=True)
class Rules:
    """The lines that the verdict draws; all of them are visible settings.

    `margin`: IDIs within it of 0 count as the reference's. 0.5 is the middle between the reference (0) and
    Original (1). It has to be wider than what another seed of training does to a model that is
    innocent, which one reference cannot tell. `floor_margin`: the same without a reference, where 0 is a network with
    random weights; there only what is all but Original's, or all but nothing, can be named. `level`: of each
    one-sided test of outputs. `utility`: the test accuracy, a share, that a model may lose.
    """

    margin: float = 0.5
    floor_margin: float = 0.1
    level: float = 0.05
    utility: float = 0.10

    def __post_init__(self) -> None:
        # A margin of 1 would let Original itself pass.
        most = {"margin": 1.0, "floor_margin": 0.5, "level": 0.5, "utility": 1.0}
        for name, below in most.items():
            if not 0 < getattr(self, name) < below:
                raise InputError(f"{name} is {getattr(self, name)}, expected above 0 and below {below:g}")


@dataclass(frozen=True)
class Loss:
    """How much test accuracy a model has lost, with its 95 % interval; shares."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """One word, the sentence that says what was tested, and what the evidence does not show."""

    word: Word
    sentence: str
    limits: tuple[str, ...] = ()


def verdict(
    *,
    idi: IDI | None,
    outputs: ThreeSample | Side | Literal["neither"] | None,
    loss: Loss | None,
    against: Against = "model",
    rules: Rules | None = None,
) -> Verdict:
    """The verdict on one model. None stands for what was not assessed.

    `idi` is measured against the reference or, with `against="none"`, against a network with random
    weights. `outputs` is the three-sample test on outputs; without a reference, the side that the
    accuracy on the forget set is on (`forget_accuracy_side`), or "neither".

    In this order, and the first that holds:

        1. UTILITY_LOST     test accuracy has fallen by more than `utility`
        2. NOT_FORGOTTEN    outputs are closer to Original's than to the reference's
        3. SHALLOW          IDI is above the margin, though outputs are closer to the reference's
           NOT_FORGOTTEN    IDI is above the margin, and outputs do not tell
        4. OVER_UNLEARNED   IDI is below minus the margin
        5. FORGOTTEN        IDI is within the margin, outputs are closer to the reference's, utility is kept
        6. UNDETERMINED     otherwise

    "Above", "below" and "within" are said of the whole interval: each is a test, and where the
    interval crosses a line nothing is said. So FORGOTTEN needs three positive findings, and is never what is left
    when no difference was found.
    """
    rules = rules or Rules()
    inside = _inside(idi, against, rules)
    side: Side | None
    if isinstance(outputs, ThreeSample):
        side = outputs.closer_to(rules.level)
    else:
        side = None if outputs == "neither" else outputs
    kept = None if loss is None else loss.high < rules.utility
    word: Word
    if loss is not None and loss.low > rules.utility:
        word = "UTILITY_LOST"
    elif side == "original":
        word = "NOT_FORGOTTEN"
    elif inside == "original":
        word = "SHALLOW" if side == "reference" else "NOT_FORGOTTEN"
    elif inside == "less":
        word = "OVER_UNLEARNED"
    elif inside == "reference" and side == "reference" and kept:
        word = "FORGOTTEN"
    else:
        word = "UNDETERMINED"
    parts = [
        _say_inside(idi, inside, against, rules),
        _say_outputs(outputs, side, against, rules),
        _say_loss(loss, rules),
        AGAINST[against],
    ]
    return Verdict(word, f"{WORDS[word]}: {'; '.join(parts)}.", _limits(idi, against))


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
    test accuracy for forgotten samples. The 95 % interval (Wilson) must lie on one side of the middle, and
    the two ends must be 0.1 apart, else there is nothing to tell.
    """
    if original - expected < 0.1:
        return None
    centre = (unlearned + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(unlearned * (1 - unlearned) / n + Z95**2 / (4 * n**2))
    middle = (original + expected) / 2
    if centre + half < middle:
        return "reference"
    return "original" if centre - half > middle else None


def pass_probability(interval: tuple[float, float], margin: float) -> float:
    """The power: how probably an interval of this width, around a normal estimate of 0, lies within the margin."""
    half = (interval[1] - interval[0]) / 2
    if half >= margin:
        return 0.0
    return math.erf((margin - half) / (half / Z95) / math.sqrt(2)) if half > 1e-12 else 1.0


def _inside(
    idi: IDI | None, against: Against, rules: Rules
) -> Literal["reference", "original", "less"] | None:
    if idi is None or idi.interval is None:
        return None
    low, high = idi.interval
    if against == "none":
        if low > 1 - rules.floor_margin:
            return "original"
        return "less" if high < rules.floor_margin else None
    if low > rules.margin:
        return "original"
    if high < -rules.margin:
        return "less"
    return "reference" if -rules.margin < low and high < rules.margin else None


WORDS: dict[Word, str] = {
    "FORGOTTEN": "Like the reference, inside and outside",
    "SHALLOW": "It no longer says it but still knows it",
    "NOT_FORGOTTEN": "It still knows what was to be forgotten",
    "OVER_UNLEARNED": "It knows less than a model that never saw the data",
    "UTILITY_LOST": "It has lost what it should have kept",
    "UNDETERMINED": "The evidence does not decide",
}

AGAINST: dict[Against, str] = {
    "model": "the reference is the model that was given",
    "proxy": "the reference is a proxy trained on a part of the retained data, so the claim is weaker",
    "none": "there is no reference, so the claim is weak",
}


def _say_inside(idi: IDI | None, inside: str | None, against: Against, rules: Rules) -> str:
    if idi is None:
        return "white-box: not assessed"
    if idi.value is None or idi.interval is None:
        return f"there is no IDI ({idi.reason})"
    low, high = idi.interval
    if against == "none":
        found = f"of what Original knows beyond a random network it keeps {idi.value:.2f}, 95 % interval {low:.2f} to {high:.2f}"
        line = rules.floor_margin
        where = {"original": f"above {1 - line:g}", "less": f"below {line:g}"}.get(
            inside or "",
            f"between {line:g} and {1 - line:g}, where a model that never saw the data may lie too",
        )
        return f"{found}, {where}"
    m = rules.margin
    found = f"IDI {idi.value:.2f}, 95 % interval {low:.2f} to {high:.2f}"
    power = f"{pass_probability(idi.interval, m):.2f}"
    match inside:
        case "reference":
            return f"{found}, within the margin of {m:g} (power at IDI 0: {power})"
        case "original":
            return f"{found}, above the margin of {m:g}"
        case "less":
            return f"{found}, below minus the margin of {m:g}"
    return f"{found}, across the margin of {m:g} (power at IDI 0: {power})"


def _say_outputs(
    outputs: ThreeSample | Side | Literal["neither"] | None, side: Side | None, against: Against, rules: Rules
) -> str:
    if against == "none":
        if outputs is None:
            return "accuracy on the forget set: not assessed"
        if side is None:
            return "accuracy on the forget set does not tell"
        like = "Original's" if side == "original" else "that of a model that never saw it"
        return f"accuracy on the forget set is nearer {like}"
    if not isinstance(outputs, ThreeSample):
        return "outputs: not assessed"
    p = outputs.p_original if side == "original" else outputs.p_reference
    test = f"three-sample test on {outputs.n} forgotten samples, p {_p(p)} at the level {rules.level:g}"
    if side is None:
        return f"outputs are not clearly closer to the reference's than to Original's ({test})"
    near, far = ("the reference's", "Original's")[:: 1 if side == "reference" else -1]
    return f"outputs are closer to {near} than to {far} ({test})"


def _say_loss(loss: Loss | None, rules: Rules) -> str:
    if loss is None:
        return "test accuracy: not assessed"
    allowed = f"{100 * rules.utility:g} points are allowed"
    return (
        f"test accuracy lost {100 * loss.value:.1f} points, 95 % interval "
        f"{100 * loss.low:.1f} to {100 * loss.high:.1f}, where {allowed}"
    )


def _limits(idi: IDI | None, against: Against) -> tuple[str, ...]:
    found = ["Tested on these samples with these critics; another attack may find what they did not."]
    if idi is None:
        found.append("Outputs alone cannot tell a model that forgot from one that only keeps silent.")
    elif against != "none":
        found.append(
            "The interval holds the chance of samples"
            + (" and of critics" if idi.restarts is not None else ", not that of critics (one restart)")
            + "; the chance in training the reference is not in it, and the margin has to cover it."
        )
    if against == "none":
        found.append(
            "Without a reference FORGOTTEN cannot be found: how much the innocent know is not known."
        )
    return tuple(found)


def _p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.4f}"
