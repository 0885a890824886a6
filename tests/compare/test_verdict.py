from __future__ import annotations

import itertools

import numpy as np
import pytest

import residua as rs
from residua.compare import (
    IDI,
    Caveat,
    Findings,
    Inside,
    Likeness,
    Loss,
    Part,
    Rules,
    ThreeSample,
    Witness,
    accuracy_loss,
    chance,
    verdict,
)
from residua.compare.verdicts import WORDS, forget_accuracy_side


def found_idi(low: float | None, high: float = 0.0) -> IDI:
    if low is None:
        return IDI(None, None, 0.0, 0.0, (-0.1, 0.1), {}, None, None, reason="Original knows no more")
    value = (low + high) / 2
    return IDI(value, (low, high), 0.0, 0.2, (0.1, 0.3), {5: value}, 0.1, None)


def seen(low: float | None, high: float = 0.0, margin: float = 0.5, **parts: Part) -> Inside:
    """The findings with one reference."""
    return Inside(found_idi(low, high), 1, margin, (high - (low or 0.0)) / 2, parts=parts)


def outputs(p_reference: float) -> ThreeSample:
    return ThreeSample(0.1, 0.2, 0.01, p_reference, 1 - p_reference, 100)


REFERENCE, ORIGINAL, NEITHER = outputs(1e-6), outputs(1 - 1e-6), outputs(0.4)
LIKE, ANSWERS, UNLIKE = (Likeness(ua, 1.0, 0.05, 0.0, 0.05) for ua in (1.0, 0.83, 0.94))
KEPT, LOST, UNCLEAR = Loss(0.0, -0.02, 0.02), Loss(0.7, 0.6, 0.8), Loss(0.1, 0.05, 0.15)


@pytest.mark.parametrize(
    ("model", "idi", "said", "loss", "word"),
    [
        ("Original", (1.0, 1.0), ORIGINAL, KEPT, "NOT_FORGOTTEN"),
        ("HD, masking, router", (1.0, 1.0), REFERENCE, KEPT, "SHALLOW"),
        ("a second Retrain", (-0.1, 0.2), REFERENCE, KEPT, "FORGOTTEN"),
        ("a second Retrain that differs, but little", (-0.08, -0.02), REFERENCE, KEPT, "FORGOTTEN"),
        ("Random", (-1.6, -1.4), NEITHER, LOST, "UTILITY_LOST"),
        ("an encoder that lost the class entirely", (-1.6, -1.4), REFERENCE, KEPT, "OVER_UNLEARNED"),
        ("few samples", (-0.6, 0.6), REFERENCE, KEPT, "UNDETERMINED"),
        ("half-way", (0.4, 0.6), REFERENCE, KEPT, "UNDETERMINED"),
        ("knows it, outputs are like theirs", (0.8, 0.9), NEITHER, KEPT, "SHALLOW"),
        ("outputs give it away", (-0.1, 0.1), ORIGINAL, KEPT, "NOT_FORGOTTEN"),
        ("samples, where outputs hardly differ", (-0.1, 0.1), NEITHER, KEPT, "FORGOTTEN"),
        ("utility does not tell", (-0.1, 0.1), REFERENCE, UNCLEAR, "UNDETERMINED"),
        ("no scale", (None,), REFERENCE, KEPT, "UNDETERMINED"),
    ],
)
def test_models_whose_truth_is_known(model, idi, said, loss, word):
    assert verdict(inside=seen(*idi), outputs=said, loss=loss, likeness=LIKE).word == word


def test_forgotten_needs_every_positive_finding():
    """Whatever is missing, unclear or bad: FORGOTTEN is said only where all of it is there."""
    insides = [None, seen(None), seen(1, 1), seen(-0.6, 0.1), seen(-0.1, 0.1), seen(0.1, 0.7)]
    insides.append(seen(-0.1, 0.1, block=Part(0.6, 0.5, 0.7, 0.5)))
    tests = [None, REFERENCE, ORIGINAL, NEITHER]
    likes, losses = [None, LIKE, ANSWERS, UNLIKE], [None, KEPT, LOST, UNCLEAR]
    witnesses = [(), (Witness("recovery", 0.9, 0.7, 1.1),), (Witness("recovery", 0.4, -0.1, 0.9),)]
    cases = list(itertools.product(insides, tests, likes, losses, witnesses))
    found = [
        verdict(inside=case[0], outputs=case[1], likeness=case[2], loss=case[3], witnesses=case[4]) for case in cases
    ]
    called = [case for case, each in zip(cases, found, strict=True) if each.word == "FORGOTTEN"]
    good = Findings("like", "within", "kept")
    assert all((each.findings == good) == (each.word == "FORGOTTEN") for each in found)
    assert called == [
        (insides[4], test, LIKE, KEPT, who)
        for test in (None, REFERENCE, NEITHER)
        for who in (witnesses[0], witnesses[2])
    ]


def test_a_surplus_in_one_block_is_not_paid_for_by_a_deficit_in_another():
    index = IDI(0.04, (-0.1, 0.18), 0.0, 0.2, (0.1, 0.3), {4: -0.77, 5: 0.81}, 0.1, None)
    assert verdict(inside=Inside(index), outputs=REFERENCE, loss=KEPT, likeness=LIKE).word == "SHALLOW"


def test_a_model_that_still_answers_is_not_forgotten_whatever_its_encoder():
    found = verdict(inside=seen(-0.1, 0.1), outputs=REFERENCE, loss=KEPT, likeness=ANSWERS)
    assert found.word == "NOT_FORGOTTEN"
    assert "forget-set error 83.0 % (references: 100.0 %), inconsistent" in found.sentence


def test_what_recovery_contradicts_is_neither_forgotten_nor_over_unlearned():
    regains = (Witness("recovery", 0.9, 0.7, 1.1),)
    for interval in ((-0.1, 0.1), (-1.6, -1.4)):
        found = verdict(inside=seen(*interval), outputs=REFERENCE, loss=KEPT, likeness=LIKE, witnesses=regains)
        assert found.word == "UNDETERMINED"
        assert found.findings == Findings("like", None, "kept")
        assert "an attack by recovery regains 0.90 of what it regains from Original" in found.sentence


@pytest.mark.parametrize("margin", [0.01, 0.5, 0.999])
def test_no_margin_lets_originals_encoder_pass(margin):
    found = verdict(inside=seen(1, 1, margin), outputs=REFERENCE, loss=KEPT, likeness=LIKE)
    assert found.word == "SHALLOW"


def test_outputs_alone_never_clear_a_model():
    assert verdict(inside=None, outputs=REFERENCE, loss=KEPT, likeness=LIKE).word == "UNDETERMINED"
    assert verdict(inside=None, outputs=ORIGINAL, loss=KEPT).word == "NOT_FORGOTTEN"
    assert "white-box: not assessed" in verdict(inside=None, outputs=REFERENCE, loss=KEPT, likeness=LIKE).sentence


@pytest.mark.parametrize(
    ("idi", "side", "word"),
    [
        ((1.0, 1.0), "original", "NOT_FORGOTTEN"),
        ((1.0, 1.0), "reference", "SHALLOW"),
        ((0.3, 0.7), "reference", "UNDETERMINED"),
        ((-0.05, 0.05), "reference", "OVER_UNLEARNED"),
    ],
)
def test_without_a_reference_nothing_is_called_forgotten(idi, side, word):
    found = verdict(inside=Inside(found_idi(*idi), references=0), outputs=side, loss=KEPT, against="none")
    assert found.word == word
    assert "no reference" in found.sentence
    for low in np.linspace(-1, 1.5, 26):
        for width in (0.01, 0.3, 1):
            each = verdict(
                inside=Inside(found_idi(low, low + width), references=0), outputs=side, loss=KEPT, against="none"
            )
            assert each.word != "FORGOTTEN"


def test_without_a_reference_what_was_not_asked_is_told_from_what_does_not_tell():
    said = {side: verdict(inside=None, outputs=side, loss=None, against="none").sentence for side in (None, "neither")}
    assert "accuracy on the forget set: not assessed" in said[None]
    assert "accuracy on the forget set is inconclusive" in said["neither"]


def test_the_three_lines_say_what_was_found_how_sure_and_what_is_not_shown():
    found = verdict(inside=seen(-0.1, 0.2), outputs=REFERENCE, loss=KEPT, likeness=LIKE)
    first, second, third = found.sentence.splitlines()
    assert "IDI 0.05, 95 % interval -0.10 to 0.20" in first
    assert "the variation between retrainings is unknown" in first
    for words in ("tolerance of 0.5", "p < 0.0001, significance level 0.05", "+0.0 points", "limit -10"):
        assert words in second
    assert third.startswith("Not shown: Only these models, images and critics were tested")
    assert third.endswith("copies and backups were not looked at.")
    assert "power" not in found.sentence, "one reference does not show it"
    proxy = verdict(inside=seen(-0.1, 0.2), outputs=REFERENCE, loss=KEPT, likeness=LIKE, against="proxy")
    assert "so the claim is weaker" in proxy.sentence
    assert "retrained" not in proxy.sentence.replace(WORDS["FORGOTTEN"], "")
    assert any(limit.startswith("A proxy was trained for this audit") for limit in proxy.limits)
    every = [
        verdict(inside=i, outputs=o, loss=u, likeness=k)
        for i in (None, seen(1, 1))
        for o in (None, REFERENCE)
        for u in (None, LOST)
        for k in (None, UNLIKE)
    ]
    said = " ".join(each.sentence + " ".join(each.limits) for each in [found, *every]).lower()
    assert not any(word in said for word in ("certif", "complian"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-0.008, "+0.8 points (95 % bound -1.2; limit -10)"),
        (0.012, "-1.2 points (95 % bound -3.2; limit -10)"),
        (0.0, "+0.0 points (95 % bound -2.0; limit -10)"),
        (-0.05, "+5.0 points (95 % bound +3.0; limit -10)"),
    ],
)
def test_accuracy_that_rose_was_not_lost(value, words):
    loss = Loss(value, value - 0.02, value + 0.02)
    assert f"test accuracy {words}" in verdict(inside=None, outputs=None, loss=loss).sentence


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inside": None}, "--original FILE --unlearned FILE"),
        ({"inside": seen(-0.6, 0.6)}, "--reference proxy:0.15x5"),
        ({"inside": seen(None)}, "--restarts 3"),
        ({"inside": seen(-0.1, 0.1), "loss": UNCLEAR}, "more test data"),
        ({"inside": seen(-0.1, 0.1), "likeness": None}, "--outputs"),
        ({"inside": Inside(found_idi(0.4, 0.6), references=0), "against": "none"}, "--reference FILE"),
    ],
)
def test_undetermined_says_what_would_decide_it(given, words):
    found = verdict(**{"outputs": NEITHER, "loss": KEPT, "likeness": LIKE} | given)
    assert found.word == "UNDETERMINED"
    assert any(words in remedy for remedy in found.remedies)
    assert all(remedy in found.sentence for remedy in found.remedies)


def test_a_loss_of_accuracy_is_covered_by_its_interval():
    random = np.random.default_rng(2)
    hits = 0
    for _ in range(500):
        before, after = random.binomial(300, 0.9) / 300, random.binomial(300, 0.8) / 300
        loss = accuracy_loss(before, after, 300)
        hits += loss.low <= 0.1 <= loss.high
    assert 0.92 <= hits / 500 <= 0.98
    assert accuracy_loss(1.0, 1.0, 50).high > 0.01, "fifty right answers do not prove perfection"


def test_the_side_of_the_forget_accuracy():
    assert forget_accuracy_side(0.0, original=0.9, expected=0.0, n=100) == "reference"
    assert forget_accuracy_side(0.9, original=0.9, expected=0.0, n=100) == "original"
    assert forget_accuracy_side(0.45, original=0.9, expected=0.0, n=100) is None
    assert forget_accuracy_side(0.9, original=0.92, expected=0.9, n=10_000) is None
    assert forget_accuracy_side(0.0, original=0.9, expected=0.0, n=3) is None


@pytest.mark.parametrize(
    "setting",
    [{"margin": 1.0}, {"margin": 0.0}, {"margin": float("nan")}, {"level": 0.5}, {"utility": 1.0}, {"floor_margin": 0.5},
     {"outputs": 0.5}, {"divergence": 0.0}],
)  # fmt: skip
def test_rules_that_decide_nothing_are_refused(setting):
    with pytest.raises(rs.InputError, match=next(iter(setting))):
        Rules(**setting)


def test_the_reason_for_another_structure_has_five_hundred_characters_at_most():
    assert Rules(structure="x" * 500).structure == "x" * 500
    with pytest.raises(rs.InputError, match="500 characters at most"):
        Rules(structure="x" * 501)


def test_a_caveat_stands_in_the_first_line_and_may_bar_forgotten():
    def said(**more):
        return verdict(inside=seen(-0.1, 0.1), outputs=REFERENCE, loss=KEPT, likeness=LIKE, **more)

    named = said(caveats=[Caveat("Reference 2 is unlike the other references (TA 80.0 %)")])
    assert named.word == "FORGOTTEN"
    assert "Reference 2 is unlike the other references" in named.sentence.splitlines()[0]
    barred = said(caveats=[Caveat("Its structure is not Original's", bars=True)])
    assert (barred.word, barred.findings.knows) == ("UNDETERMINED", None)
    knows = verdict(inside=seen(1, 1), outputs=REFERENCE, loss=KEPT, caveats=[Caveat("x", bars=True)])
    assert knows.findings.knows == "more", "what accuses does not need it"


def test_what_lacks_power_is_named():
    weak = Witness("recovery", 0.0, -1.4, 1.4)
    parts = {"unseen images": Part(0.0, -0.9, 0.9, 0.5, two_sided=True)}
    found = verdict(inside=seen(-0.1, 0.1, **parts), outputs=REFERENCE, loss=KEPT, likeness=LIKE, witnesses=[weak])
    assert found.word == "FORGOTTEN"
    assert "without power: unseen images" in found.sentence
    assert "not assessed for want of power: recovery (half-width 1.40)" in found.sentence


def test_undetermined_names_the_tolerance_that_would_clear_and_the_references_that_would_do():
    known = chance([-0.04, 0.0, 0.04])
    half = known.quantile(0.975) * known.error()
    index = IDI(0.13, (0.13 - half, 0.13 + half), 0, 1, (0.9, 1.1), {5: 0.13}, 0.03, None)
    found = verdict(
        inside=Inside(index, 3, 0.25, half, known, 0.2, 1, 0.25), outputs=REFERENCE, loss=KEPT, likeness=LIKE
    )
    assert found.word == "UNDETERMINED"
    assert found.remedies == (
        "4 references in all, if IDI and their spread stay (repeat --reference FILE)",
        "a tolerance of 0.26, declared beforehand (--margin)",
    )


@pytest.mark.parametrize(
    ("restarts", "one", "several"), [(None, ", not critics (one restart)", ""), (0.02, " and critics", ", critics")]
)
def test_the_limits_say_what_the_interval_covers(restarts, one, several):
    index = IDI(0.0, (-0.1, 0.1), 0, 1, (0.9, 1.1), {5: 0.0}, 0.03, restarts)
    alone = verdict(inside=Inside(index), outputs=None, loss=None).limits[1]
    assert alone.startswith(f"The interval covers samples{one}; one reference")
    known = chance([-0.04, 0.0, 0.04])
    found = verdict(inside=Inside(index, 3, 0.25, 0.1, known, 0.2, 1, 0.25), outputs=None, loss=None).limits[1]
    assert found.startswith(
        f"The interval covers samples{several} and the variation between retrainings, from 3 references"
    )


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((0.95, 1.0), "the interval is above 0.9;"),
        ((-0.05, 0.05), "the interval is below 0.1;"),
        ((0.4, 0.6), "the interval is not clearly above 0.9 or below 0.1, and"),
    ],
)
def test_without_a_reference_the_ends_are_named(interval, words):
    found = verdict(inside=Inside(found_idi(*interval), references=0), outputs=None, loss=KEPT, against="none")
    assert words in found.sentence
