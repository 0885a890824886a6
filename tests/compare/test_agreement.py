"""Likeness, witnesses and odd references, by numbers worked out apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from residua.compare import Likeness, Witness, jsd, likeness, odd_references, structure_caveats, witness
from residua.compare.agreement import LEAST_JSD, typical_distances
from residua.readings import Reading

LIMITS = {"tolerance": 0.25, "most": 0.05, "divergence": 1.5}


def answers(*shares: float) -> list[np.ndarray]:
    """Log-probabilities of models that give the first of two classes so often."""
    return [np.log(np.tile([each, 1 - each], (50, 1))) for each in shares]


def like(unlearned: float, *references: float, shares: tuple[float, ...] = (), own: float = 0.5):
    return likeness(
        unlearned, original=0.2, references=references, n=100, tolerance=0.05, divergence=1.5,
        outputs={"unlearned": answers(own)[0]} if shares else None, outputs_of_references=answers(*shares),
    )  # fmt: skip


def test_one_odd_reference_does_not_widen_what_is_allowed():
    honest = like(1.0, 1.0, 1.0, 1.0, shares=(0.5, 0.52, 0.54))
    odd = like(1.0, 1.0, 1.0, 1.0, shares=(0.5, 0.52, 0.9))
    assert odd.jsd_allowed <= honest.jsd_allowed
    near = float(jsd(*answers(0.5, 0.52)))
    assert odd.jsd_allowed == pytest.approx(1.5 * near + LEAST_JSD)
    far = like(1.0, 1.0, 1.0, 1.0, shares=(0.5, 0.52, 0.9), own=0.75)
    assert not far.like
    assert odd.like
    assert odd.jsd == pytest.approx(near), "the median of three"


def test_the_distance_of_a_reference_is_the_lower_median_of_those_from_the_others():
    ones = answers(0.5, 0.55, 0.65, 0.9)
    apart = [[float(jsd(a, b)) for b in ones if b is not a] for a in ones]
    assert typical_distances(ones) == pytest.approx([sorted(each)[1] for each in apart])


def test_scatter_of_ua_widens_what_is_allowed_up_to_the_declared_bound_only():
    k3, k5 = t.ppf(0.975, 4) * math.sqrt(4 / 3), t.ppf(0.975, 6) * math.sqrt(6 / 5)
    calm = like(0.22, 0.23, 0.23, 0.23)  # half of the way to Original is 0.015
    assert calm.half == pytest.approx(k3 * 0.01 * math.sqrt(2 / 4))
    assert calm.allowed == pytest.approx(calm.half)
    five = like(0.22, 0.23, 0.23, 0.23, 0.23, 0.23)
    assert five.half == pytest.approx(k5 * 0.01 * math.sqrt(2 / 6))
    wild = like(0.22, 0.03, 0.23, 0.43)
    assert wild.half > 0.05
    assert wild.allowed == 0.05
    one = like(0.9, 1.0)
    p = 101 / 102
    assert one.half == pytest.approx(1.959964 * math.sqrt(2 * p * (1 - p) / 100))


def test_a_model_still_answers_where_its_whole_interval_is_beyond_the_tolerance():
    def found(ua: float, half: float, **more) -> Likeness:
        return Likeness(ua, 0.98, 0.05, half, 0.05, **more)

    assert found(0.83, 0.09).answers, "0.15 less errors, at least 0.06"
    assert not found(0.83, 0.11).answers
    assert not found(0.99, 0.0).answers
    assert not found(1.0, 0.0, perturbed=found(0.83, 0.11)).answers
    assert found(1.0, 0.0, perturbed=found(0.83, 0.09)).answers
    assert found(0.93, 0.0).like, "0.05 is allowed"
    assert not found(0.92, 0.0).like
    assert not found(0.98, 0.0, jsd=0.02, jsd_allowed=0.01).like
    assert found(0.98, 0.0, jsd=0.01, jsd_allowed=0.01).like


def test_a_witness_is_rescaled_with_the_error_of_two_fractions_and_of_retrainings():
    found = witness("probe.5", 0.5, original=0.8, references=[0.4], n=100, errors=[0.03, 0.04])
    var = [((share * 100 + 1) / 102) * (1 - (share * 100 + 1) / 102) / 100 for share in (0.5, 0.4)]
    half = 1.959964 * math.sqrt(sum(var) + 0.05**2) / 0.4
    assert found.value == pytest.approx(0.25)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half))
    assert found.half == pytest.approx(half)
    several = witness("probe.5", 0.5, original=0.8, references=[0.36, 0.4, 0.44], n=100)
    spread = (2 * (0.04 / 0.4) ** 2 + 2 * 0.08**2) / 4
    half = t.ppf(0.975, 4) * math.sqrt(spread * 4 / 3 + sum(var) / 0.16)
    assert (several.low, several.high) == pytest.approx((0.25 - half, 0.25 + half))
    assert witness("probe.5", 0.5, original=0.41, references=[0.4], n=100) is None, "Original gained nothing"


@pytest.mark.parametrize(
    ("half", "value", "assessed"), [(0.2, 0.0, True), (0.3, 0.0, False), (0.3, 0.6, True), (1.4, 0.9, False)]
)
def test_a_witness_without_power_was_not_assessed(half, value, assessed):
    seen = Witness("recovery", value, value - half, value + half)
    assert seen.assessed(0.25) == assessed
    assert seen.contradicts(0.25) == (value - half > 0.25)
    least = seen.power(0.25)
    assert least == pytest.approx(0.25 + half)
    assert Witness("recovery", least + 1e-9, least - half + 1e-9, least + half).contradicts(0.25)
    assert not Witness("recovery", least - 1e-9, least - half - 1e-9, least + half).contradicts(0.25)


def test_a_reference_unlike_the_others_is_named_with_the_difference():
    calm = {"TA": [0.91, 0.92, 0.93], "RA": [0.96, 0.97, 0.95]}
    assert odd_references(calm, answers(0.5, 0.52, 0.54), (-0.1, 0.0, 0.1), **LIMITS) == []
    ((place, why),) = odd_references(calm | {"TA": [0.91, 0.86, 0.92]}, **LIMITS)
    assert (place, why) == (1, "TA 86.0 %, the others' 91.5 %")
    ((place, why),) = odd_references(calm, answers(0.5, 0.52, 0.9), **LIMITS)
    assert place == 2
    assert why.startswith("JSD ")
    assert odd_references({}, (), (0.1, -0.3, 0.2), **LIMITS) == [(1, "IDI -0.30 against the others")]
    assert odd_references({"TA": [0.9, 0.5]}, answers(0.5, 0.9), (0.5, -0.5), **LIMITS) == [], "of two, neither"


def made(
    dead: float = 0.1,
    apart: float = 1e-5,
    digest: int = 0,
    linear=(0, 0),
    weightless=(0, 0),
    headless=False,
    own_code=0,
):
    arrays = {"digest": np.full(32, digest, np.uint8), "linear": np.array(linear, bool)}
    arrays |= {"weightless": np.array(weightless, bool), "headless": np.array([headless])}
    arrays |= {"own_code": np.array([own_code])}
    return Reading({"dead": dead, "inconsistency": apart}, arrays)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({}, None),
        ({"dead": 0.149}, None),
        ({"dead": 0.151}, "15.1 % of its channels never vary, at most 10.0 % of the others'"),
        ({"apart": 1e-3}, None),
        ({"apart": 1.1e-3}, "depend on how it is asked"),
        ({"digest": 1}, "Its structure is not Original's (--allow-structure REASON admits that)"),
    ],
)
def test_what_the_make_of_a_model_shows_bars_forgotten(own, words):
    found = structure_caveats(made(**own), made(), [made(dead=0.05)], "")
    assert [each.bars for each in found] == ([True] if words else [])
    assert all(words in each.text for each in found)


def test_what_is_usual_among_the_others_is_no_finding():
    assert structure_caveats(made(apart=0.05, dead=0.4), made(apart=0.006), [made(dead=0.36)], "") == []
    ((caveat),) = structure_caveats(made(digest=1), made(), [], "pruned by its owner")
    assert not caveat.bars
    assert "allowed because: pruned by its owner" in caveat.text


@pytest.mark.parametrize(("modules", "words"), [(1, "One of its modules is code"), (2, "2 of its modules are code")])
def test_code_of_the_owner_makes_the_structure_worthless_and_bars_nothing(modules, words):
    (caveat,) = structure_caveats(made(own_code=modules), made(), [], "")
    assert caveat.text.startswith(words)
    assert "show nothing" in caveat.text
    assert not caveat.bars


def test_cuts_that_add_nothing_are_named():
    odd = made(linear=(0, 1), weightless=(1, 0), headless=True)
    texts = [each.text for each in structure_caveats(odd, odd, [], "")]
    assert texts == [
        "Block 2 is a linear map of the one before, so its reading adds nothing",
        "Block 1 has no weights, so its reading adds nothing",
        "The last block gives the logits, so IDI reads answers; cut before them",
    ]
