"""Numbers of verdicts worked out apart: closed forms, scipy, or the same draws written out."""

from __future__ import annotations

import dataclasses
import importlib
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binomtest, norm, t

from residua.compare import (
    IDI,
    Inside,
    Part,
    Rules,
    accuracy_loss,
    chance,
    excess,
    guards,
    idi,
    inside,
    metrics,
    order,
    three_sample,
)
from residua.compare.accuracies import standard_error
from residua.compare.information import idi_value, ranks, spearman
from residua.compare.metric_values import auc, auc_interval, offline_attacks, without_credit
from residua.compare.references import MOVED, POSITIVE, UNSEEN
from residua.compare.three_samples import _distances, _square_width
from residua.compare.verdicts import forget_accuracy_side
from residua.errors import InputError
from residua.readings import Curve, Reading

information = importlib.import_module("residua.compare.information")
Z = norm.ppf(0.975)


def curve(terms: np.ndarray, test: np.ndarray | None = None, families: tuple[str, ...] = ("stack",)) -> Curve:
    """A curve of these terms (families, restarts, blocks, n)."""
    blocks = np.arange(6 - terms.shape[2], 6)
    arrays = {"terms": terms, "blocks": blocks} | ({} if test is None else {"test_terms": test})
    means = {f"I{block}": float(terms[0, :, row].mean()) for row, block in enumerate(blocks)}
    return Curve({"H": 0.69} | means, arrays, {"families": list(families)})


def models(
    seed: int, *shape: int, test: int = 0, levels=(0.15, 0.3, 0.1, 0.12, 0.08), families=("stack",)
) -> list[Curve]:
    """An unlearned model, Original and three references, with terms of this shape."""
    random = np.random.default_rng(seed)
    common = random.normal(0, 0.3, shape[-1])
    return [
        curve(
            level + common + random.normal(0, 0.1, shape),
            level + random.normal(0, 0.2, (*shape[:-1], test)) if test else None,
            families,
        )
        for level in levels
    ]


# The verdict's fractions.


@pytest.mark.parametrize(("before", "after", "n"), [(0.9, 0.8, 300), (1.0, 1.0, 50), (0.62, 0.71, 1000)])
def test_a_loss_of_accuracy_is_agrestis_and_caffos(before, after, n):
    """One success and one failure are added to each fraction, and two to each number."""
    p, q = (before * n + 1) / (n + 2), (after * n + 1) / (n + 2)
    half = Z * math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (n + 2))
    found = accuracy_loss(before, after, n)
    assert (found.value, found.low, found.high) == pytest.approx((before - after, p - q - half, p - q + half), abs=1e-7)


@pytest.mark.parametrize(("original", "expected", "n"), [(0.9, 0.0, 40), (0.8, 0.3, 200)])
def test_the_side_of_the_forget_accuracy_is_wilsons_interval_beside_the_middle(original, expected, n):
    middle = (original + expected) / 2
    for right in range(n + 1):
        ends = binomtest(right, n).proportion_ci(0.95, method="wilson")
        side = "reference" if ends.high < middle else "original" if ends.low > middle else None
        assert forget_accuracy_side(right / n, original=original, expected=expected, n=n) == side
    assert forget_accuracy_side(0.0, original=0.59, expected=0.5, n=10_000) is None
    assert forget_accuracy_side(0.0, original=0.61, expected=0.5, n=10_000) == "reference"


@pytest.mark.parametrize("sign", [1, -1])
def test_the_ends_of_wilsons_interval_are_exact(sign):
    """The fraction at which an end is at the middle, by the closed form; 1e-5 to either side another thing is said."""

    def beyond(p: float, n: int = 50, middle: float = 0.45) -> float:
        centre, half = p + Z**2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return (centre + sign * half) / (1 + Z**2 / n) - middle

    at = brentq(beyond, 0.0, 0.45) if sign > 0 else brentq(beyond, 0.45, 1.0)
    said = [forget_accuracy_side(at + step, original=0.9, expected=0.0, n=50) for step in (-1e-5, 1e-5)]
    assert said == (["reference", None] if sign > 0 else [None, "original"])


@pytest.mark.parametrize(("share", "n"), [(0.0, 40), (0.3, 100), (1.0, 7)])
def test_the_error_of_a_fraction_has_one_success_and_one_failure_added(share, n):
    p = (share * n + 1) / (n + 2)
    assert standard_error(share, n) == pytest.approx(math.sqrt(p * (1 - p) / n))


def test_above_chance_is_a_one_sided_test_at_5_per_cent():
    for n in (100, 500):
        limit = 0.5 + norm.ppf(0.95) * math.sqrt(0.25 / n)
        for accuracy, credited in ((limit + 1e-6, True), (limit - 1e-6, False)):
            attack = Reading({"MIA": 0.5, "MIA.accuracy": accuracy}, {"MIA.held": np.array(n)})
            assert (without_credit(attack) == {}) == credited


@pytest.mark.parametrize(
    ("name", "most"),
    [("floor_margin", 0.5), ("level", 0.5), ("utility", 1.0), ("outputs", 0.5), ("divergence", 10.0), ("confidence", 1.0),
     ("margin", 1.0)],
)  # fmt: skip
def test_rules_end_where_they_are_said_to(name, most):
    assert getattr(Rules(**{name: most - 1e-6}), name) == most - 1e-6
    assert getattr(Rules(**{name: 1e-6}), name) == 1e-6
    for wrong in (most, 0.0, -0.1):
        with pytest.raises(Exception, match=f"{name} is .*expected above 0 and below {most:g}"):
            Rules(**{name: wrong})


def test_the_rules_that_nothing_else_was_said_of():
    rules = Rules()
    assert dataclasses.astuple(rules) == (None, 0.1, 0.05, 0.1, 0.05, 1.5, 0.95, "")
    assert [rules.tolerance(k) for k in (1, 2, 3)] == [0.5, 0.25, 0.25]
    assert Rules(margin=0.1).tolerance(1) == Rules(margin=0.1).tolerance(5) == 0.1
    some = rules.spending(0.3)
    assert (some.level, some.confidence) == pytest.approx((0.015, 0.985))


def test_guards_draw_their_lines_where_they_say():
    """Class-wise a tenth of the way to 1; 0.1 of what should be kept; an Original within 0.02 of 1 knew nothing."""

    def said(ua: float, before: float, ra: float = 0.9) -> list[str]:
        found = guards(
            {"UA": ua, "RA": ra, "TA": 0.9}, {"UA": before, "RA": 0.9, "TA": 0.9}, scenario="class", samples=100
        )
        return [each.split(":")[0] for each in found]

    assert said(0.4 + 0.06 - 1e-6, 0.4) == ["nothing happened"]
    assert said(0.4 + 0.06 + 1e-6, 0.4) == []
    assert said(0.979, 0.979) == ["nothing happened"]
    assert said(0.981, 0.981) == []
    assert said(1.0, 0.4, ra=0.8 + 1e-6) == []
    assert said(1.0, 0.4, ra=0.8 - 1e-6) == ["the model collapsed"]


# Areas under curves.


@pytest.mark.parametrize(("area", "n", "m"), [(0.5, 10, 20), (0.76, 40, 60), (0.93, 500, 30)])
def test_the_interval_of_an_auc_is_hanleys_and_mcneils(area, n, m):
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    error = math.sqrt((area * (1 - area) + (n - 1) * (q1 - area**2) + (m - 1) * (q2 - area**2)) / (n * m))
    assert auc_interval(area, n, m) == pytest.approx((area - Z * error, min(area + Z * error, 1.0)), abs=1e-7)
    assert auc_interval(1.0, 10, 10)[1] == 1.0
    assert auc_interval(0.0, 10, 10)[0] == 0.0


def test_an_auc_counts_pairs_and_half_of_ties():
    ones, others = np.array([1.0, 2.0, 2.0, 5.0]), np.array([0.0, 2.0, 3.0])
    pairs = [(a > b) + 0.5 * (a == b) for a in ones for b in others]
    assert auc(ones, others) == pytest.approx(np.mean(pairs))


def test_offline_scores_are_the_distance_from_the_references_and_the_ratio_of_probabilities():
    random = np.random.default_rng(0)
    read = [Reading({}, {"forget": random.normal(1, 2, 30), "unseen": random.normal(0, 2, 20)}) for _ in range(4)]
    found = offline_attacks(read[0], read[1:]).values
    lira, rmia = (
        {
            name: how(read[0].arrays[name], np.stack([each.arrays[name] for each in read[1:]]))
            for name in ("forget", "unseen")
        }
        for how in (lambda own, theirs: own - theirs.mean(0), lambda own, theirs: expit(own) / expit(theirs).mean(0))
    )
    for name, scores in (("offline_LiRA", lira), ("offline_RMIA", rmia)):
        area = np.mean(scores["forget"][:, None] > scores["unseen"])
        assert found[name] == pytest.approx(area)
        assert (found[f"{name}.low"], found[f"{name}.high"]) == pytest.approx(auc_interval(area, 30, 20))


# IDI and its intervals, with the draws written out.


def resampled(columns: list[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
    rows = random.integers(0, len(columns[0]), (information.DRAWS, len(columns[0])))
    return [each[rows].mean(axis=1) for each in columns]


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_intervals_are_percentiles_of_the_draws(level):
    u, o, r, *_ = models(1, 1, 1, 2, 60)
    found = idi(u, original=o, reference=r, seed=5, level=level)
    rows = [each.arrays["terms"][0, 0] for each in (u, o, r)]
    whole = [each.sum(axis=0) for each in rows]
    columns = [whole[0] - whole[2], whole[1] - whole[2], *(rows[0] - rows[2])]
    above, scale, first, second = resampled(columns, np.random.default_rng(5))
    ends = [(1 - level) / 2, (1 + level) / 2]
    assert found.value == pytest.approx(columns[0].mean() / columns[1].mean())
    assert found.interval == pytest.approx(tuple(np.quantile(above / scale, ends)))
    assert found.id_original_interval == pytest.approx(tuple(np.quantile(scale, ends)))
    assert found.samples == pytest.approx(np.std(above / scale))
    assert found.restarts is None
    for block, draws in ((4, first), (5, second)):
        assert found.block_intervals[block] == pytest.approx(tuple(np.quantile(draws / scale, ends)))
        assert found.blocks[block] == pytest.approx(columns[2 + block - 4].mean() / columns[1].mean())
    assert found.positive == pytest.approx(sum(max(each, 0) for each in found.blocks.values()))
    assert found.largest == max(found.blocks, key=found.blocks.get)


def test_restarts_add_normal_draws_with_the_error_of_their_mean():
    u, o, r, *_ = models(2, 1, 3, 1, 50)
    found = idi(u, original=o, reference=r, seed=9)
    terms = [each.arrays["terms"][0, :, 0] for each in (u, o, r)]
    random = np.random.default_rng(9)
    means = [each.mean(0) for each in terms]
    above, scale, _ = resampled([means[0] - means[2], means[1] - means[2], means[0] - means[2]], random)
    noise = [random.normal(0, 1, information.DRAWS) * each.mean(1).std(ddof=1) / math.sqrt(3) for each in terms]
    above, scale = above + noise[0] - noise[2], scale + noise[1] - noise[2]
    assert found.interval == pytest.approx(tuple(np.quantile(above / scale, [0.025, 0.975])))
    shares = (found.id_unlearned + noise[0] - noise[2]) / (found.id_original + noise[1] - noise[2])
    assert found.restarts == pytest.approx(np.std(shares))


def test_two_restarts_are_enough_to_show_their_chance_and_one_is_not():
    for restarts, known in ((1, False), (2, True)):
        u, o, r, *_ = models(3, 1, restarts, 1, 50)
        assert (idi(u, original=o, reference=r).restarts is not None) == known


def test_the_excess_resamples_forgotten_samples_and_test_images_apart():
    u, o, r, *_ = models(4, 1, 1, 2, 60, test=40)
    found = excess(u, original=o, reference=r, seed=3)
    random = np.random.default_rng(3)
    draws, nats = [], []
    for name in ("terms", "test_terms"):
        own = [each.arrays[name][0, 0].sum(axis=0) for each in (u, o, r)]
        draws.append(resampled([own[0] - own[2], own[1] - own[2]], random))
        nats.append([own[0].mean() - own[2].mean(), own[1].mean() - own[2].mean()])
    above, scale = (a - b for a, b in zip(*draws, strict=True))
    assert (found.nats, found.original_nats) == pytest.approx((nats[0][0] - nats[1][0], nats[0][1] - nats[1][1]))
    if np.quantile(scale, 0.025) > 0:
        assert found.value == pytest.approx(found.nats / found.original_nats)
        assert found.interval == pytest.approx(tuple(np.quantile(above / scale, [0.025, 0.975])))
    else:
        assert found.value is None
    # A surplus of forgotten samples alone is memory, and has a value.
    for each, level in zip((u, o, r), (0.2, 0.4, 0.0), strict=True):
        each.arrays["terms"][:] += level
    sure = excess(u, original=o, reference=r, seed=3)
    assert sure.value == pytest.approx(sure.nats / sure.original_nats)
    assert sure.interval[0] < sure.value < sure.interval[1]


def test_no_excess_is_given_where_original_remembers_nothing():
    u, o, r, *_ = models(11, 1, 1, 1, 60, test=40, levels=(0.1, 0.1, 0.1, 0.1, 0.1))
    found = excess(u, original=o, reference=r)
    assert (found.value, found.interval) == (None, None)
    assert found.nats == pytest.approx(
        sum(sign * (u.arrays[name] - r.arrays[name]).mean() for name, sign in (("terms", 1), ("test_terms", -1)))
    )


def test_metrics_hold_the_index_with_its_interval_and_what_is_above_0():
    u, o, r, *_ = models(12, 1, 1, 2, 60)
    found = metrics({"information": u}, original={"information": o}, reference={"information": r}).values
    index = idi(u, original=o, reference=r, seed=0)
    assert index.positive
    assert (found["IDI"], found["IDI.low"], found["IDI.high"]) == (index.value, *index.interval)
    assert (found["IDI.positive"], found["ID"]) == (index.positive, index.id_unlearned)
    below = curve(r.arrays["terms"] - 0.1)
    nothing = metrics({"information": below}, original={"information": o}, reference={"information": r}).values
    assert nothing["IDI.positive"] == 0.0


def test_the_order_of_models_is_from_the_least_index_in_every_family():
    u, o, r, *_ = models(13, 2, 1, 1, 200, families=("stack", "linear"))
    found = order({"u": u, "o": o, "r": r}, original="o", reference="r")
    assert [[name for name, _ in found[family]] for family in ("stack", "linear")] == [["r", "u", "o"]] * 2
    value = idi(u, original=o, reference=r, family="linear").value
    assert dict(found["linear"]) == pytest.approx({"r": 0.0, "u": value, "o": 1.0})


def test_the_value_for_tables_needs_a_scale_above_its_error():
    u, o, r, *_ = models(5, 1, 1, 1, 200)
    assert idi_value(u, original=o, reference=r) == pytest.approx(idi(u, original=o, reference=r).value)
    scale = (o.arrays["terms"] - r.arrays["terms"])[0, 0, 0]
    error = Z * scale.std(ddof=1) / math.sqrt(200)
    for more, known in ((1e-6, True), (-1e-6, False)):
        shifted = curve(o.arrays["terms"] - scale.mean() + error + more)
        assert (idi_value(u, original=shifted, reference=r) is not None) == known


def test_ranks_and_their_correlation():
    assert ranks({"a": 3.0, "b": 1.0, "c": 2.0}) == {"b": 1, "c": 2, "a": 3}
    left, right = {"a": 1.0, "b": 2.0, "c": 3.0, "x": 9.0}, {"a": 1.0, "b": 3.0, "c": 2.0}
    assert spearman(left, right) == pytest.approx((0.5, 3))
    assert spearman({"a": 1.0, "b": 2.0}, right) is None
    assert spearman(left, dict.fromkeys("abc", 1.0)) is None
    assert spearman(dict.fromkeys("abc", 1.0), right) is None
    assert spearman({"a": 1.0, "b": 2.0, "c": 2.0}, right) is not None


def test_curves_of_other_images_are_refused_where_both_say_which():
    u, o, r, *_ = models(10, 1, 1, 1, 60)
    seen = [dataclasses.replace(each, about={**each.about, "images": {"mean": 0.5}}) for each in (u, o, r)]
    other = dataclasses.replace(u, about={**u.about, "images": {"mean": 0.4}})
    assert idi_value(u, original=seen[1], reference=seen[2]) is not None, "older curves do not say"
    with pytest.raises(InputError, match="images differs"):
        idi_value(other, original=seen[1], reference=seen[2])


# Several references.


def own_interval(u: np.ndarray, r: np.ndarray, scale: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """A part's value and half-width, from its terms, the references' and Original's surplus."""

    def share(surplus: np.ndarray) -> tuple[float, float]:
        value = surplus.mean() / scale.mean()
        return value, (surplus - value * scale).std(ddof=1) / math.sqrt(len(scale)) / scale.mean()

    k, zero = len(r), r.mean(axis=0)
    value, error = share(u - zero)
    if k == 1:
        return value, norm.ppf((1 + level) / 2) * error
    values = [(each - zero).mean() / scale.mean() for each in r]
    sampling = math.sqrt(np.mean([share((each - zero) * k / (k - 1))[1] ** 2 for each in r]))
    spread = ((k - 1) * np.var(values, ddof=1) + 2 * (0.04**2 + sampling**2 * (k - 1) / k)) / (k + 1)
    whole = max(spread * (1 + 1 / k) - sampling**2, 0.0) + error**2
    return value, t.ppf((1 + level) / 2, k + 1) * math.sqrt(whole)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_part_has_its_own_interval(k):
    u, o, *references = models(6, 2, 1, 2, 80, test=50, families=("stack", "linear"))
    found = inside(u, original=o, references=references[:k], tolerance=0.25, confidence=0.9)
    names = {"block 4", "block 5", "linear critics", UNSEEN, POSITIVE}
    assert set(found.parts) == names

    def rows(family: int, blocks: list[int], whole: list[int], name: str = "terms"):
        t_u, t_o, *t_r = (each.arrays[name][family, 0] for each in (u, o, *references[:k]))
        r = np.stack([each[blocks].sum(axis=0) for each in t_r])
        zero = np.mean([each[whole].sum(axis=0) for each in t_r], axis=0)
        return t_u[blocks].sum(axis=0), r, t_o[whole].sum(axis=0) - zero

    for name, given in {
        "block 4": (0, [0], [0, 1]),
        "block 5": (0, [1], [0, 1]),
        "linear critics": (1, [0, 1], [0, 1]),
        UNSEEN: (0, [0, 1], [0, 1], "test_terms"),
    }.items():
        value, half = own_interval(*rows(*given), level=0.9)
        part = found.parts[name]
        assert (part.value, part.low, part.high) == pytest.approx((value, value - half, value + half), rel=1e-4)
        assert part.margin == 0.25
        assert part.two_sided == (name == UNSEEN)
    positive = found.parts[POSITIVE]
    assert positive.value == pytest.approx(found.idi.positive)
    assert (positive.low, positive.high) == pytest.approx((positive.value - found.half, positive.value + found.half))


def test_where_every_block_knows_less_nothing_is_above_0():
    _, o, *references = models(6, 1, 1, 2, 80)
    below = curve(references[0].arrays["terms"] - 0.2)
    part = inside(below, original=o, references=references, tolerance=0.25).parts[POSITIVE]
    assert part.value == 0.0
    assert part.low == -part.high < 0


def test_the_interval_against_several_references_is_that_of_a_prediction():
    u, o, *references = models(7, 1, 1, 1, 90)
    found = inside(u, original=o, references=references, tolerance=0.25)
    _t_u, t_o, *t_r = (each.arrays["terms"][0, 0, 0] for each in (u, o, *references))
    zero = np.mean(t_r, axis=0)
    scale = t_o - zero
    values = [(each - zero).mean() / scale.mean() for each in t_r]

    def error_of(surplus: np.ndarray) -> float:
        value = surplus.mean() / scale.mean()
        return (surplus - value * scale).std(ddof=1) / math.sqrt(90) / scale.mean()

    sampling = math.sqrt(np.mean([error_of((each - zero) * 3 / 2) ** 2 for each in t_r]))
    spread = (2 * np.var(values, ddof=1) + 2 * (0.04**2 + sampling**2 * 2 / 3)) / 4
    error = math.sqrt(max(spread * 4 / 3 - sampling**2, 0) + found.idi.samples**2)
    half = t.ppf(0.975, 4) * error
    assert found.half == pytest.approx(half)
    assert found.idi.interval == pytest.approx((found.idi.value - half, found.idi.value + half))
    assert found.resolution == pytest.approx(0.25 - half + t.ppf(0.95, 4) * error)
    assert found.chance.left_out == pytest.approx([each * 3 / 2 for each in values])
    assert found.p == found.place / 4
    assert found.place == 1 + sum(each >= found.idi.value for each in values)


def test_the_unit_is_a_ratio_of_two_independent_means():
    u, o, r, *_ = models(8, 1, 1, 1, 70, test=40)
    found = inside(u, original=o, references=[r], tolerance=0.5).unit
    own, other = ((o.arrays[name] - r.arrays[name])[0, 0, 0] for name in ("terms", "test_terms"))
    ratio = other.mean() / own.mean()
    errors = [each.std(ddof=1) / math.sqrt(len(each)) / own.mean() for each in (other, own)]
    half = Z * math.sqrt(errors[0] ** 2 + (ratio * errors[1]) ** 2)
    assert found == pytest.approx((ratio, ratio - half, ratio + half), rel=1e-5)


def test_restarts_widen_the_interval_of_several_references():
    u, o, *references = models(9, 1, 3, 1, 60)
    found = inside(u, original=o, references=references, tolerance=0.25)
    training = found.chance.error(found.idi.samples, 0.0)
    assert found.half > found.chance.quantile(0.975) * found.idi.restarts
    assert found.half <= found.chance.quantile(0.975) * math.hypot(training, found.idi.restarts) + 1e-12


def audited(value: float, half: float, *, tolerance: float = 0.25, **more) -> Inside:
    index = IDI(value, (value - half, value + half), 0, 1, (0.9, 1.1), more.pop("blocks", {5: value}), 0.03, None)
    return Inside(index, 3, tolerance, half, **more)


def test_more_less_and_within_are_strict_and_said_of_the_whole_interval():
    assert audited(0.36, 0.1).knows_more
    assert not audited(0.35, 0.1).knows_more
    assert audited(-0.36, 0.1).knows_less
    assert not audited(-0.35, 0.1).knows_less
    assert audited(0.14, 0.1).passes
    assert not audited(0.15, 0.1).passes
    assert audited(-0.14, 0.1).passes
    assert not audited(-0.15, 0.1).passes
    for name in (UNSEEN, MOVED):
        assert audited(0.0, 0.1, parts={name: Part(0.5, 0.26, 0.74, 0.25)}).knows_more
        assert not audited(0.0, 0.1, parts={name: Part(0.5, 0.25, 0.75, 0.25)}).knows_more
    assert audited(0.1, 0.1, blocks={4: -0.3, 5: 0.4}).knows_more, "what is above 0 is 0.3 more than their sum"
    assert not audited(0.0, 0.1, blocks={4: -0.34, 5: 0.34}).knows_more
    leaning = audited(0.0, 0.1)
    leaning = dataclasses.replace(leaning, idi=dataclasses.replace(leaning.idi, interval=(-0.3, 0.1)))
    assert leaning.clears_at == pytest.approx(0.3)
    leaning = dataclasses.replace(leaning, idi=dataclasses.replace(leaning.idi, interval=(-0.1, 0.2)))
    assert leaning.clears_at == pytest.approx(0.2)
    nothing = Inside(dataclasses.replace(audited(0.0, 0.1).idi, value=None, interval=None), 3, 0.25)
    assert (nothing.low, nothing.high, nothing.knows_more, nothing.knows_less, nothing.passes) == (
        None,
        None,
        False,
        False,
        False,
    )
    assert (nothing.clears_at, nothing.enough) == (None, None)


def test_the_number_of_references_that_would_do_is_the_first_whose_interval_fits():
    x = np.array([-0.06, 0.0, 0.06])
    known = chance(x, sampling=0.02)
    own = 0.001
    half = t.ppf(0.975, 4) * math.sqrt(known.spread**2 * 4 / 3 + own)
    for tolerance in (0.2, 0.22, 0.25, 0.27):
        found = audited(0.06, half, tolerance=tolerance, chance=known)
        fits = [
            k for k in range(4, 21)
            if 0.06 + t.ppf(0.975, k + 1) * math.sqrt(known.spread**2 * (1 + 1 / k) + own) < tolerance
        ]  # fmt: skip
        assert found.enough == (fits[0] if fits else None)
    assert audited(0.06, 0.0, chance=known).enough is None


# The three-sample test.


def test_the_error_is_the_jackknifes():
    """The variance of a U-statistic, from the statistic without each sample in turn."""
    random = np.random.default_rng(2)
    u, r, o = (random.normal(mean, 1, (25, 2)) for mean in (0.0, 0.4, 1.0))
    found = three_sample(u, r, o)
    gamma, n = 1 / (2 * _square_width(_distances(np.concatenate([u, r, o])))), 25

    def k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-gamma * ((a[:, None] - b) ** 2).sum(-1))

    h = k(r, r) - k(o, o) - k(u, r) - k(r, u) + k(u, o) + k(o, u)
    np.fill_diagonal(h, 0)
    without = []
    for i in range(n):
        rest = np.delete(np.delete(h, i, 0), i, 1)
        without.append(rest.sum() / ((n - 1) * (n - 2)))
    jackknife = (n - 1) / n * np.sum((np.array(without) - np.mean(without)) ** 2)
    assert found.error == pytest.approx(math.sqrt(jackknife))
    assert found.difference == pytest.approx(h.sum() / (n * (n - 1)))
    assert found.p_reference == pytest.approx(norm.cdf(found.difference / found.error))
    assert found.p_original == pytest.approx(norm.sf(found.difference / found.error))
    squares = [
        float(((a - b) ** 2).sum())
        for i, a in enumerate(np.concatenate([u, r, o]))
        for b in np.concatenate([u, r, o])[:i]
    ]
    assert gamma == pytest.approx(1 / (2 * np.median(squares)))


def test_where_half_of_the_distances_are_nothing_their_mean_is_the_width():
    rows = np.zeros((10, 1))
    rows[0] = 3.0
    assert _square_width(_distances(rows)) == pytest.approx(9 * 9 / 45)
    assert _square_width(_distances(np.ones((5, 2)))) == 0.5
    # Equal rows are 0 apart but for rounding, whatever their sign.
    for sign in (1, -1):
        equal = sign * np.tile(1e3 * np.random.default_rng(0).random(7), (6, 1))
        assert _square_width(_distances(equal)) == 0.5
