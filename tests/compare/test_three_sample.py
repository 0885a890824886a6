from __future__ import annotations

import math

import numpy as np
import pytest

import residua as rs
from residua.compare import aggregated_three_sample, three_sample, three_samples

LEVEL = 0.05


def rows(mean: float, n: int, random: np.random.Generator, common: np.ndarray | float = 0.0) -> np.ndarray:
    """Rows around (mean, 0); `common` is what the models share of each sample."""
    return common + random.normal(0, 1, (n, 2)) + np.array([mean, 0.0])


def share_of_calls(u: float, r: float, o: float, *, n: int, repeats: int, shared: float = 0.0):
    """Rates at which the test says closer to the reference, and closer to Original, at LEVEL."""
    found = []
    for seed in range(repeats):
        random = np.random.default_rng(seed)
        common = shared * random.normal(0, 1, (n, 2))
        test = three_sample(*(rows(mean, n, random, common) for mean in (u, r, o)))
        found.append(test.closer_to(LEVEL))
    return found.count("reference") / repeats, found.count("original") / repeats


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_equal_distances_are_called_unequal_at_most_at_the_level(n, shared):
    """Also where the three models' rows go together, which a test for independent samples would not know."""
    for call in share_of_calls(0, 1, -1, n=n, repeats=400, shared=shared):
        assert call <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / 400)


def test_three_equal_distributions_are_no_reason_to_call():
    for call in share_of_calls(0, 0, 0, n=40, repeats=400):
        assert call <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / 400)


def test_the_level_is_used_and_not_merely_kept():
    """A test that never calls keeps every level; at equal distances this one calls about as often as it may."""
    assert min(share_of_calls(0, 1, -1, n=100, repeats=400)) >= 0.02


def test_a_planted_difference_is_found():
    closer, farther = share_of_calls(0, 0.3, 1.5, n=50, repeats=100)
    assert closer >= 0.95
    assert farther == 0


@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_the_aggregated_test_keeps_its_level_and_uses_it(shared):
    calls = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        common = shared * random.normal(0, 1, (60, 2))
        calls += aggregated_three_sample(*(rows(mean, 60, random, common) for mean in (0, 1, -1))) < LEVEL
    assert calls / 300 <= LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / 300)
    assert calls / 300 >= (0.02 if not shared else 0)


def test_the_aggregated_test_sees_differences_that_the_median_width_smooths_away():
    """Model and reference put half of their rows at two near places; Original has them between. The other rows are far away."""
    random = np.random.default_rng(0)

    def near(places: tuple[float, float]) -> np.ndarray:
        far = random.normal(0, 30, (300, 1))
        far[:120] = np.repeat(places, 60)[:, None] + random.normal(0, 0.3, (120, 1))
        return far

    u, r, o = near((-1.5, 1.5)), near((-1.5, 1.5)), near((0, 0))
    assert aggregated_three_sample(u, r, o) < LEVEL < three_sample(u, r, o).p_reference
    assert aggregated_three_sample(u, o, r) > 0.5


def test_the_aggregated_p_value_is_the_rank_of_the_least_of_all_widths():
    """Written out pair by pair: h(i, j) of the U-statistic, jackknife deviations, ranks among normal multipliers' values."""
    random = np.random.default_rng(5)
    u, r, o = (rows(mean, 24, random) for mean in (0, 0.6, -0.9))
    both, n = np.concatenate([u, r, o]), 24
    apart = np.array([math.dist(both[i], both[j]) for i in range(72) for j in range(i)])
    low, high = (math.sqrt(np.quantile(apart**2, level)) for level in (0.05, 0.95))
    multipliers = np.random.default_rng(0).standard_normal((n, three_samples.DRAWS))
    values = []
    for step in range(three_samples.WIDTHS):
        width = low / 2 + (2 * high - low / 2) * step / (three_samples.WIDTHS - 1)

        def k(x, y, width=width):
            return math.exp(-(math.dist(x, y) ** 2) / (2 * width**2))

        h = [
            [k(r[i], r[j]) - k(o[i], o[j]) + k(u[i], o[j]) + k(u[j], o[i]) - k(u[i], r[j]) - k(u[j], r[i])
             for j in range(n) if j != i]
            for i in range(n)
        ]  # fmt: skip
        part = np.mean(h, axis=1)
        left_out = [
            np.mean([h[i][j - (j > i)] for i in range(n) for j in range(n) if len({i, j, out}) == 3])
            for out in range(n)
        ]
        deviations = -math.sqrt((n - 1) / n) * (np.array(left_out) - np.mean(left_out))
        values.append(np.append(-part.mean(), deviations @ multipliers))
    least = np.min([[np.mean(each >= value) for value in each] for each in values], axis=0)
    assert aggregated_three_sample(u, r, o) == pytest.approx(np.mean(least <= least[0]), abs=1e-9)


def test_constant_and_equal_rows_have_an_aggregated_p_value_too():
    one, two = np.tile([1.0, 0.0], (30, 1)), np.tile([0.0, 1.0], (30, 1))
    assert aggregated_three_sample(one, one, two) == pytest.approx(0.001)
    assert aggregated_three_sample(one, two, one) == aggregated_three_sample(one, one, one) == 1


def test_exchanging_reference_and_original_exchanges_the_answer():
    random = np.random.default_rng(0)
    u, r, o = (rows(mean, 60, random) for mean in (0, 0.5, 1))
    one, other = three_sample(u, r, o), three_sample(u, o, r)
    assert one.p_reference == pytest.approx(other.p_original)
    assert one.p_reference + one.p_original == pytest.approx(1)
    assert one.difference == pytest.approx(-other.difference)
    assert one.to_original == pytest.approx(other.to_reference)


def test_the_difference_is_that_of_two_unbiased_mmds():
    """Against the sums written out, pair by pair."""
    random = np.random.default_rng(1)
    u, r, o = (rows(mean, 20, random) for mean in (0, 1, 2))
    every = np.concatenate([u, r, o])
    distances = [math.dist(a, b) for i, a in enumerate(every) for b in every[:i]]
    width = float(np.median(np.square(distances)))

    def mmd(x: np.ndarray, y: np.ndarray) -> float:
        def k(a: np.ndarray, b: np.ndarray) -> float:
            return math.exp(-(math.dist(a, b) ** 2) / (2 * width))

        pairs = [(i, j) for i in range(20) for j in range(20) if i != j]
        total = sum(k(x[i], x[j]) + k(y[i], y[j]) - k(x[i], y[j]) - k(y[i], x[j]) for i, j in pairs)
        return total / len(pairs)

    found = three_sample(u, r, o)
    assert found.to_reference == pytest.approx(mmd(u, r))
    assert found.to_original == pytest.approx(mmd(u, o))


def test_the_model_itself_is_closest_to_itself():
    random = np.random.default_rng(2)
    r, o = rows(0, 60, random), rows(1.5, 60, random)
    assert three_sample(o, r, o).closer_to(LEVEL) == "original"
    assert three_sample(o, r, o).to_original == pytest.approx(0, abs=1e-12)
    assert three_sample(r, r, o).closer_to(LEVEL) == "reference"


def test_constant_answers_are_told_apart_and_equal_ones_are_not():
    one, two = np.tile([1.0, 0.0], (30, 1)), np.tile([0.0, 1.0], (30, 1))
    assert three_sample(one, one, two).p_reference == 0
    assert three_sample(one, two, one).p_original == 0
    assert three_sample(one, one, one).p_reference == 0.5
    assert three_sample(one, two, two).p_reference == 0.5


def test_many_samples_are_thinned():
    random = np.random.default_rng(3)
    found = three_sample(*(rows(mean, 5000, random) for mean in (0, 0, 0.5)))
    assert found.n == 1000
    assert found.closer_to(LEVEL) == "reference"


@pytest.mark.parametrize("mean", [0.05, 0.3, 2.0])
def test_both_p_values_are_the_normal_distributions_at_the_difference_in_standard_errors(mean):
    from scipy.stats import norm

    random = np.random.default_rng(4)
    found = three_sample(*(rows(each, 100, random) for each in (0, 0, mean)))
    z = found.difference / found.error
    assert (found.p_reference, found.p_original) == pytest.approx((norm.cdf(z), norm.sf(z)), rel=1e-9)


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([(30, 2), (30, 2), (30, 3)], "same samples"),
        ([(30,), (30,), (30,)], "same samples"),
        ([(19, 2)] * 3, "too few"),
    ],
)
def test_rows_that_do_not_fit_are_refused(shapes, says):
    with pytest.raises(rs.InputError, match=says):
        three_sample(*(np.zeros(shape) for shape in shapes))
    with pytest.raises(rs.InputError, match="finite"):
        three_sample(np.full((30, 2), np.nan), np.zeros((30, 2)), np.zeros((30, 2)))
