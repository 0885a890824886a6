"""U-LiRA's arithmetic on scores whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import residua as rs
from residua.compare import Observations, likelihood_ratios, ulira


def planted(models: int, examples: int, apart: float, seed: int = 0) -> Observations:
    """Every model scores every example, half of the models in; each example has its own place and scale.

    In lies `apart` standard deviations above out, so that the best attack has the AUC Phi(apart / sqrt 2).
    """
    random = np.random.default_rng(seed)
    trained = np.zeros((models, examples), bool)
    for pair in range(0, models, 2):
        trained[pair] = random.random(examples) < 0.5
        trained[pair + 1] = ~trained[pair]
    place, scale = random.normal(0, 5, examples), random.uniform(0.2, 4, examples)
    score = place + scale * (random.normal(size=trained.shape) + apart * trained)
    model, example = np.indices(trained.shape)
    return Observations(model.ravel(), example.ravel(), trained.ravel(), score.ravel())


def sides(models: int) -> tuple[range, range]:
    return range(models // 2), range(models // 2, models)


@pytest.mark.parametrize("apart", [0.5, 1.0, 2.0])
def test_the_attack_reaches_the_analytic_auc(apart):
    found = ulira(planted(200, 400, apart), sides(200)).values
    assert found["U-LiRA"] == pytest.approx(norm.cdf(apart / np.sqrt(2)), abs=0.02)
    assert found["U-LiRA.accuracy"] == pytest.approx(norm.cdf(apart / 2), abs=0.02)
    assert found["U-LiRA.TPR@1e-2"] == pytest.approx(norm.sf(norm.isf(0.01) - apart), abs=0.02)


@pytest.mark.parametrize("models", [8, 16, 128])
@pytest.mark.parametrize("variance", ["example", "shared"])
def test_in_and_out_alike_cannot_be_told_apart(models, variance):
    """Also with few shadow models, where a target among its own shadows would show at once."""
    found = ulira(planted(models, 6000 // models, 0), sides(models), variance).values
    assert found["U-LiRA"] == pytest.approx(0.5, abs=0.03)
    assert found["U-LiRA.accuracy"] == pytest.approx(0.5, abs=0.03)


def test_the_ratio_is_that_of_the_two_gaussians():
    shadow = Observations(
        np.array([0, 1, 2, 3, 4, 5]),
        np.zeros(6, int),
        np.array([True, True, True, False, False, False]),
        np.array([1.0, 2.0, 3.0, -2.0, 0.0, 5.0]),
    )
    target = Observations(np.array([9]), np.array([0]), np.array([True]), np.array([1.7]))
    ratio, known = likelihood_ratios(shadow, target)
    expected = norm.logpdf(1.7, 2, 1) - norm.logpdf(1.7, 1, np.std([-2, 0, 5], ddof=1))
    assert known.all()
    assert ratio[0] == pytest.approx(expected)


def test_one_variance_for_all_wins_where_shadow_models_are_few():
    """All examples have one scale, but only two scores a side: the shared variance is that of many."""
    seen = planted(8, 2000, 1.0)
    score = np.random.default_rng(1).normal(size=len(seen)) + seen.trained
    seen = Observations(seen.model, seen.example, seen.trained, score)
    shared, own = (ulira(seen, sides(8), kind).values["U-LiRA"] for kind in ("shared", "example"))
    assert shared > own + 0.02


def test_a_model_that_is_shadow_and_target_is_refused():
    seen = planted(8, 20, 1.0)
    with pytest.raises(rs.InputError, match="model 4 is a shadow model and a target"):
        likelihood_ratios(seen.of(range(5)), seen.of(range(4, 8)))
    with pytest.raises(rs.InputError, match="model 3 is a shadow model and a target"):
        ulira(seen, (range(4), range(3, 8)))


def small(trained: list[bool], score: list[float], example: list[int] | None = None) -> Observations:
    n = len(trained)
    return Observations(
        np.arange(n), np.zeros(n, int) if example is None else np.array(example), np.array(trained), np.array(score)
    )


IN_OUT = [True, False] * 4


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (small(IN_OUT, [3.0] * 8), "every score is the same"),
        (small([True] * 8, list(range(8))), "enough shadow scores on both sides"),
        (small(IN_OUT, list(range(8)), list(range(8))), "enough shadow scores on both sides"),
        (small([], []), "enough shadow scores"),
    ],
)
def test_what_cannot_be_told_says_why(seen, why):
    found = ulira(seen, sides(8))
    assert found.values == {}
    assert why in found.notes["U-LiRA"]


def test_examples_that_are_all_on_one_side_show_nothing():
    """One side has shadows of both kinds; the other only models that were trained on the example."""
    seen = small([True, False] * 2 + [True] * 4, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert ulira(seen, sides(8)).notes["U-LiRA"].startswith("all examples that could be asked about are on one side")


@pytest.mark.parametrize(
    "score",
    [
        [1.0, 2.0, 3.0, 4.0, 1.5, 2.5, 3.5, 4.5],  # one example
        [1.0, 0.0] * 4,  # each side constant
        [1.0, 1.0, 1.0, 1.0, 0.0, 5.0, 1.0, 5.0],  # one side constant among the shadows
        [1e4, -1e4] * 4,
        [1e-300, 0.0] * 4,
    ],
)
@pytest.mark.parametrize("variance", ["example", "shared"])
def test_degenerate_scores_give_finite_numbers(score, variance):
    found = ulira(small(IN_OUT, score), sides(8), variance)
    assert found.values
    assert all(np.isfinite(value) and 0 <= value <= 1 for value in found.values.values())
    assert "it needs 100 scores" in found.notes["U-LiRA.TPR@1e-2"]


def test_constant_sides_are_told_apart_perfectly():
    assert ulira(small(IN_OUT, [1.0, 0.0] * 4), sides(8)).values["U-LiRA"] == 1.0


def test_examples_without_enough_shadows_are_left_out_and_counted():
    seen = planted(8, 50, 1.0)
    lonely = Observations(np.array([0]), np.array([50]), np.array([True]), np.array([0.0]))
    joined = Observations(
        *(np.append(a, b) for a, b in zip(seen.arrays().values(), lonely.arrays().values(), strict=True))
    )
    found = ulira(joined, sides(8), "shared")
    assert found.values == ulira(seen, sides(8), "shared").values
    assert found.notes["U-LiRA.rows"].startswith("1 of ")


def test_what_is_no_set_of_scores_is_refused():
    with pytest.raises(rs.InputError, match="four lists of one length"):
        Observations(np.arange(3), np.arange(3), np.ones(3, bool), np.zeros(4))
    with pytest.raises(rs.InputError, match="NaN or infinite"):
        Observations(np.arange(1), np.arange(1), np.ones(1, bool), np.array([np.nan]))
    with pytest.raises(rs.InputError, match="choose example or shared"):
        ulira(planted(8, 20, 0), sides(8), "mine")
