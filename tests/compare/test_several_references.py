"""Several references, on simulated curves whose truth is known."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

import residua as rs
from residua.compare import IDI, Inside, Part, chance, inside, mean_curve
from residua.compare.references import POSITIVE, UNSEEN
from residua.readings import Curve

N, SCALE = 400, 0.2  # samples, and what Original knows beyond a retrained model on average, in nats


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """Only the standard deviation of the draws is used where there are several references."""
    monkeypatch.setattr(importlib.import_module("residua.compare.information"), "DRAWS", 60)


def curve(
    random: np.random.Generator,
    shares: tuple[float, ...],
    *,
    families: tuple[str, ...] = ("stack",),
    own: dict[str, float] | None = None,
    test: float | None = None,
) -> Curve:
    """A curve whose blocks are so much above the mean retrained model, as shares of Original's surplus.

    A common part of every sample's term, and one of this model alone.
    """
    common = np.random.default_rng(7).normal(0, 0.3, N)
    levels = np.array([[(own or {}).get(f, 0.0) + s for s in shares] for f in families])
    noise = random.normal(0, 0.1, (len(families), 1, len(shares), N))
    noise -= noise.mean(axis=-1, keepdims=True)  # sampling is planted apart, in `retrained`
    terms = 0.1 + SCALE * levels[:, None, :, None] + common + noise
    arrays = {"terms": terms, "blocks": np.arange(6 - len(shares), 6)}
    if test is not None:
        arrays["test_terms"] = 0.1 + SCALE * test + common + noise
    return Curve({"H": 1.0}, arrays, {"families": list(families)})


def original(random: np.random.Generator, blocks: int = 1, **more) -> Curve:
    return curve(random, (1.0 / blocks,) * blocks, **more)


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("spread", [0.03, 0.06, 0.1])
def test_the_characteristics_hold_for_retrainings_that_scatter_so(k, spread):
    """Whatever the scatter, a residue at the tolerance hardly ever passes: noise makes passing rarer."""
    random = np.random.default_rng(int(1000 * spread) + k)
    before, runs, tolerance = original(random), 150, 0.25
    covered = passed = accused = at_tolerance = 0
    for _ in range(runs):
        references = [curve(random, (random.normal(0, spread),)) for _ in range(k)]
        luck = random.normal(0, spread)
        again = inside(curve(random, (luck,)), original=before, references=references, tolerance=tolerance)
        covered += again.low < 0 < again.high
        passed += again.passes
        accused += again.knows_more
        shifted = curve(random, (luck + tolerance,))
        at_tolerance += inside(shifted, original=before, references=references, tolerance=tolerance).passes
    assert covered >= 0.85 * runs
    assert accused <= 0.01 * runs
    assert at_tolerance <= 0.08 * runs
    assert passed >= 0.85 * runs or spread > 0.03
    assert passed <= 0.5 * runs or spread < 0.1


def planted(value: float, left_out: tuple[float, ...], sampling: float = 0.03, parts=None, tolerance=0.25):
    """An audit with these numbers, whose sampling errors cancel."""
    x = np.array(left_out)
    known = chance(x * (len(x) - 1) / len(x))
    half = known.quantile(0.975) * known.error()
    index = IDI(value, (value - half, value + half), 0, 1, (0.9, 1.1), {5: value}, sampling, None)
    return Inside(index, len(x), tolerance, half, known, parts=parts or {})


def test_a_declared_tolerance_binds():
    """An IDI of 0.18 with an interval up to 0.38 passed at a tolerance of 0.05, since the margin grew with the noise."""
    found = planted(0.18, (-0.06, 0.0, 0.06))
    assert found.half > 0.1
    for tolerance in (0.05, 0.18, found.high - 1e-9):
        assert not dataclasses.replace(found, tolerance=tolerance).passes
    assert dataclasses.replace(found, tolerance=found.high + 1e-9).passes
    assert found.clears_at == pytest.approx(found.high)


def test_the_tolerance_that_would_clear_covers_the_parts():
    wide, high = Part(0.1, -0.9, 1.1, 0.25, two_sided=True), Part(0.25, 0.1, 0.4, 0.25)
    found = planted(0.0, (-0.06, 0.0, 0.06), parts={"wide": wide, "high": high})
    assert found.clears_at == pytest.approx(0.4)
    below = dataclasses.replace(found, parts={"seen": Part(-0.5, -0.6, -0.4, 0.25, two_sided=True)})
    assert below.clears_at == pytest.approx(0.6)


def test_as_many_references_as_would_do_are_named():
    found = planted(0.06, (-0.06, 0.0, 0.06))
    assert not found.passes or found.half < 0.19
    tight = dataclasses.replace(found, tolerance=found.clears_at - 0.01)
    assert not tight.passes
    k = tight.enough
    assert k is not None
    assert k > 3
    more = found.chance.with_references(k)
    assert more.degrees == k + 1
    assert 0.06 + more.quantile(0.975) * more.error() < tight.tolerance
    fewer = found.chance.with_references(k - 1)
    assert k == 4 or 0.06 + fewer.quantile(0.975) * fewer.error() >= tight.tolerance
    assert dataclasses.replace(found, tolerance=0.07).enough is None, "its own IDI is nearly all of it"


@pytest.mark.parametrize(
    ("low", "high", "two_sided", "passes"),
    [
        (0.1, 0.24, False, True),
        (0.1, 0.25, False, False),
        (-0.1, 0.4, False, True),  # not clearly above 0
        (0.01, 0.9, False, False),
        (-0.6, -0.3, False, True),
        (-0.6, -0.3, True, False),
        (-0.3, 0.9, True, True),
        (-0.9, -0.01, True, False),
        (-0.2, -0.05, True, True),
    ],
)
def test_a_part_fails_where_it_is_clearly_above_zero_and_not_within_the_tolerance(low, high, two_sided, passes):
    part = Part((low + high) / 2, low, high, 0.25, two_sided)
    assert part.inside == passes
    assert part.powerful == (high - low < 0.5)
    wider = [dataclasses.replace(part, margin=0.25 + more).inside for more in (0.0, 0.2, 0.4, 0.8)]
    assert wider == sorted(wider), "a larger tolerance never fails what a smaller one passes"


def test_the_unit_is_compared_on_unseen_images():
    random = np.random.default_rng(8)
    references = [curve(random, (each,), test=each) for each in (-0.02, 0.0, 0.02)]
    for share in (0.3, 1.0):
        before = original(random, test=share)
        found = inside(curve(random, (0.0,), test=0.0), original=before, references=references, tolerance=0.25)
        assert found.unit[0] == pytest.approx(share, abs=1e-6)
        assert found.unit[1] < share < found.unit[2]


def test_an_unmoderated_interval_would_be_useless_with_three_references():
    """Two degrees of freedom alone: t is 4.3."""
    known = chance([-0.1, 0.0, 0.1])
    assert known.degrees == 4
    assert known.quantile(0.975) == pytest.approx(2.776, abs=1e-3)
    assert known.measured == pytest.approx(0.1)
    assert known.left_out == pytest.approx((-0.15, 0.0, 0.15))
    assert known.spread == pytest.approx(np.sqrt((2 * 0.01 + 2 * 0.04**2) / 4))
    assert chance([-0.1, 0.0, 0.1], sampling=0.06).spread == pytest.approx(
        np.sqrt((2 * 0.01 + 2 * (0.04**2 + 0.06**2 * 2 / 3)) / 4)
    )


def test_zero_is_the_mean_of_the_references():
    random = np.random.default_rng(0)
    references = [curve(random, (share,)) for share in (-0.1, 0.0, 0.4)]
    found = inside(references[2], original=original(random), references=references, tolerance=0.25)
    assert found.idi.value == pytest.approx(0.3 / 0.9)
    assert mean_curve(references).terms([5]).mean() == pytest.approx(0.1 + SCALE * 0.1 + _common())
    assert np.mean(found.chance.left_out) == pytest.approx(0, abs=1e-9)


def _common() -> float:
    return float(np.random.default_rng(7).normal(0, 0.3, N).mean())


@pytest.mark.parametrize(("share", "place", "p"), [(0.9, 1, 0.25), (0.05, 2, 0.5), (-0.9, 4, 1.0)])
def test_the_rank_is_exact(share, place, p):
    random = np.random.default_rng(1)
    references = [curve(random, (each,)) for each in (-0.1, 0.0, 0.1)]
    found = inside(curve(random, (share,)), original=original(random), references=references, tolerance=0.25)
    assert (found.place, found.p) == (place, p)


def test_one_reference_shows_no_resolution():
    random = np.random.default_rng(2)
    one = [curve(random, (0.0,))]
    found = inside(curve(random, (0.0,)), original=original(random), references=one, tolerance=0.5)
    assert (found.resolution, found.chance, found.p) == (None, None, None)


def test_references_that_differ_as_much_as_original_clear_nobody():
    random = np.random.default_rng(3)
    references = [curve(random, (each,)) for each in (-0.8, 0.0, 0.8)]
    found = inside(curve(random, (0.0,)), original=original(random), references=references, tolerance=0.25)
    assert found.half > 1
    assert not found.passes


def test_no_block_pays_for_another():
    random = np.random.default_rng(4)
    references = [curve(random, (each, each)) for each in (-0.02, 0.0, 0.02)]
    found = inside(curve(random, (-0.77, 0.81)), original=original(random, 2), references=references, tolerance=0.25)
    assert abs(found.idi.value) < 0.1
    assert found.knows_more
    assert {"block 5", POSITIVE} <= set(found.outside)


def test_one_family_that_knows_more_keeps_a_model_from_passing():
    random = np.random.default_rng(5)
    families = ("stack", "linear")
    references = [curve(random, (each,), families=families) for each in (-0.02, 0.0, 0.02)]
    before = original(random, families=families)
    found = inside(
        curve(random, (0.0,), families=families, own={"linear": 0.8}),
        original=before, references=references, tolerance=0.25,
    )  # fmt: skip
    assert found.outside == ["linear critics"]
    assert not found.passes


@pytest.mark.parametrize("test", [1.0, -2.0])
def test_unseen_images_that_read_otherwise_keep_a_model_from_passing(test):
    """A model that was prepared for the audited images: more is known of others, or nothing fits them."""
    random = np.random.default_rng(6)
    references = [curve(random, (each,), test=each) for each in (-0.02, 0.0, 0.02)]
    before = original(random, test=1.0)
    honest = inside(curve(random, (0.0,), test=0.0), original=before, references=references, tolerance=0.25)
    assert honest.passes
    found = inside(curve(random, (0.0,), test=test), original=before, references=references, tolerance=0.25)
    assert found.outside == [UNSEEN]
    assert found.knows_more == (test > 0)


def test_one_value_shows_no_chance():
    with pytest.raises(rs.InputError, match="two or more"):
        chance([0.1])


def test_what_the_curves_warn_of_stands_among_the_limits():
    random = np.random.default_rng(0)
    found = inside(curve(random, (0.0,)), original=original(random), references=[curve(random, (0.0,))], tolerance=0.5)
    warned = dataclasses.replace(found, notes=("Unlearned: the critics had too few samples.",))
    assert rs.compare.verdict(inside=warned, outputs=None, loss=None).limits[-1] == warned.notes[0]
