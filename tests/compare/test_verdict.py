from __future__ import annotations

import itertools

import numpy as np
import pytest

import residua as rs
from residua.compare import IDI, Loss, Rules, ThreeSample, accuracy_loss, verdict
from residua.compare.verdict import forget_accuracy_side, pass_probability


def found_idi(low: float | None, high: float = 0.0) -> IDI:
    if low is None:
        return IDI(None, None, 0.0, 0.0, (-0.1, 0.1), {}, None, None, reason="Original knows no more")
    return IDI((low + high) / 2, (low, high), 0.0, 0.2, (0.1, 0.3), {5: 1.0}, 0.1, None)


def outputs(p_reference: float) -> ThreeSample:
    return ThreeSample(0.1, 0.2, 0.01, p_reference, 1 - p_reference, 100)


REFERENCE, ORIGINAL, NEITHER = outputs(1e-6), outputs(1 - 1e-6), outputs(0.4)
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
        ("knows it, outputs do not tell", (0.8, 0.9), NEITHER, KEPT, "NOT_FORGOTTEN"),
        ("outputs give it away", (-0.1, 0.1), ORIGINAL, KEPT, "NOT_FORGOTTEN"),
        ("outputs do not tell", (-0.1, 0.1), NEITHER, KEPT, "UNDETERMINED"),
        ("utility does not tell", (-0.1, 0.1), REFERENCE, UNCLEAR, "UNDETERMINED"),
        ("no scale", (None,), REFERENCE, KEPT, "UNDETERMINED"),
    ],
)
def test_models_whose_truth_is_known(model, idi, said, loss, word):
    assert verdict(idi=found_idi(*idi), outputs=said, loss=loss).word == word


def test_forgotten_needs_three_positive_findings():
    """Whatever is missing, unclear or bad: FORGOTTEN is said in exactly one of all these cases."""
    idis = [
        None,
        found_idi(None),
        found_idi(1, 1),
        found_idi(-0.6, 0.1),
        found_idi(-0.1, 0.1),
        found_idi(0.1, 0.7),
    ]
    losses = [None, KEPT, LOST, UNCLEAR]
    cases = list(itertools.product(idis, [None, REFERENCE, ORIGINAL, NEITHER], losses))
    called = [
        case for case in cases if verdict(idi=case[0], outputs=case[1], loss=case[2]).word == "FORGOTTEN"
    ]
    assert called == [(idis[4], REFERENCE, KEPT)]


@pytest.mark.parametrize("margin", [0.01, 0.5, 0.999])
def test_no_margin_lets_originals_encoder_pass(margin):
    found = verdict(idi=found_idi(1, 1), outputs=REFERENCE, loss=KEPT, rules=Rules(margin=margin))
    assert found.word == "SHALLOW"


def test_outputs_alone_never_clear_a_model():
    assert verdict(idi=None, outputs=REFERENCE, loss=KEPT).word == "UNDETERMINED"
    assert verdict(idi=None, outputs=ORIGINAL, loss=KEPT).word == "NOT_FORGOTTEN"
    assert "white-box: not assessed" in verdict(idi=None, outputs=REFERENCE, loss=KEPT).sentence


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
    found = verdict(idi=found_idi(*idi), outputs=side, loss=KEPT, against="none")
    assert found.word == word
    assert "no reference" in found.sentence
    for low in np.linspace(-1, 1.5, 26):
        for width in (0.01, 0.3, 1):
            each = verdict(idi=found_idi(low, low + width), outputs=side, loss=KEPT, against="none")
            assert each.word != "FORGOTTEN"


def test_without_a_reference_what_was_not_asked_is_told_from_what_does_not_tell():
    said = {
        side: verdict(idi=None, outputs=side, loss=None, against="none").sentence
        for side in (None, "neither")
    }
    assert "accuracy on the forget set: not assessed" in said[None]
    assert "accuracy on the forget set does not tell" in said["neither"]


def test_the_sentence_says_what_was_tested_at_what_level_with_what_power():
    found = verdict(idi=found_idi(-0.1, 0.2), outputs=REFERENCE, loss=KEPT)
    for words in ("IDI 0.05", "95 % interval -0.10 to 0.20", "margin of 0.5", "power at IDI 0: 1.00",
                  "p < 0.0001 at the level 0.05", "lost 0.0 points", "10 points are allowed"):  # fmt: skip
        assert words in found.sentence
    assert (
        "proxy" in verdict(idi=found_idi(-0.1, 0.2), outputs=REFERENCE, loss=KEPT, against="proxy").sentence
    )
    every = [
        verdict(idi=i, outputs=o, loss=u)
        for i in (None, found_idi(1, 1))
        for o in (None, REFERENCE)
        for u in (None, LOST)
    ]
    assert not any("certif" in (each.sentence + " ".join(each.limits)).lower() for each in [found, *every])


def test_the_margin_leaves_room_for_the_chance_of_training():
    """A second Retrain whose IDI scatters by 0.15 between trainings, read with an interval of +-0.15."""
    random = np.random.default_rng(0)
    centres = random.normal(0, 0.15, 2000)

    def words(margin: float) -> list[str]:
        rules = Rules(margin=margin)
        idis = (found_idi(c - 0.15, c + 0.15) for c in centres)
        return [verdict(idi=each, outputs=REFERENCE, loss=KEPT, rules=rules).word for each in idis]

    assert words(0.5).count("FORGOTTEN") >= 0.95 * 2000
    assert not {"NOT_FORGOTTEN", "SHALLOW"} & set(words(0.5))
    assert words(0.3).count("FORGOTTEN") <= 0.75 * 2000, "a margin that forgets the chance of training"


@pytest.mark.parametrize("half", [0.05, 0.2, 0.3, 0.45])
def test_the_power_is_how_often_an_innocent_model_passes(half):
    centres = np.random.default_rng(1).normal(0, half / 1.959964, 20_000)
    often = np.mean((centres - half > -0.5) & (centres + half < 0.5))
    assert pass_probability((-half, half), 0.5) == pytest.approx(often, abs=0.01)


def test_power_at_the_ends():
    assert pass_probability((-0.6, 0.6), 0.5) == 0
    assert pass_probability((0.0, 0.0), 0.5) == 1


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
    [{"margin": 1.0}, {"margin": 0.0}, {"margin": float("nan")}, {"level": 0.5}, {"utility": 1.0}, {"floor_margin": 0.5}],
)  # fmt: skip
def test_rules_that_decide_nothing_are_refused(setting):
    with pytest.raises(rs.InputError, match=next(iter(setting))):
        Rules(**setting)
