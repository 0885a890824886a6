from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.measure.information.calibration import Problem
from residua.measure.information.estimate import skewed
from residua.measure.information.samples import stratified_folds

pytestmark = pytest.mark.usefixtures("one_thread")


def read(problem: Problem, seed: int = 0) -> tuple[rs.Information, float]:
    features, labels = problem.draw(np.random.default_rng(seed))
    return rs.mutual_information(features, labels), problem.truth()


def test_independent_labels_tell_nothing():
    found, truth = read(Problem("none", "shift", 3000, 64, 0.0))
    assert truth == 0
    assert abs(found.value) <= 0.01
    assert found.interval[0] == 0


def test_copied_labels_tell_all_and_never_more():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2000)
    features = np.concatenate(
        [labels[:, None] + 0.01 * random.normal(size=(2000, 1)), random.normal(size=(2000, 9))], 1
    )
    found = rs.mutual_information(features, labels)
    assert 0.97 * found.ceiling <= found.value <= found.ceiling
    assert found.interval[1] <= found.ceiling
    assert found.accuracy > 0.99


def test_more_noise_less_information():
    values = [read(Problem("p", "shift", 1500, 8, strength))[0].value for strength in (3.0, 2.0, 1.0, 0.5)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("problem", "tolerance"),
    [
        (Problem("two classes", "shift", 6000, 64, 2.0), 0.03),
        (Problem("1:99", "shift", 6000, 64, 3.0, positive=0.01), 0.015),
        (Problem("ten classes", "grid", 6000, 16, 2.0, labels=10), 0.1),
        pytest.param(Problem("forty classes", "grid", 1600, 8, 2.0, labels=40), 0.1, marks=pytest.mark.slow),
    ],
)
def test_known_information_is_read(problem, tolerance):
    found, truth = read(problem)
    assert abs(found.value - truth) <= tolerance


def test_what_no_line_can_see_is_read():
    problem = Problem("scale", "scale", 4000, 8, 1.5)
    found, truth = read(problem)
    assert abs(found.value - truth) <= 0.15 * truth


def test_what_neither_lines_nor_squares_can_see_is_read():
    random = np.random.default_rng(0)
    features = random.normal(size=(6000, 4))
    labels = (features[:, 0] * features[:, 1] > 0).astype(int)  # exclusive or: H(Y) nats, all of them in a product
    assert rs.mutual_information(features, labels).value > 0.6 * np.log(2)


def test_terms_average_to_the_value_and_the_interval_holds_it():
    found, _ = read(Problem("p", "shift", 1000, 8, 1.5))
    assert len(found.terms) == 1000
    assert np.mean(found.terms, dtype=np.float64) == pytest.approx(found.value, abs=1e-6)
    assert found.interval[0] < found.value < found.interval[1]
    assert found.shortfall >= 0


def test_a_reading_is_repeatable_and_leaves_the_callers_generator_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first, _ = read(Problem("p", "shift", 400, 4, 1.0))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    again, _ = read(Problem("p", "shift", 400, 4, 1.0))
    assert np.array_equal(first.terms, again.terms)


def test_maps_are_flattened_and_whole_numbers_taken():
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    maps = (random.normal(size=(400, 2, 3, 3)) * 50 + 100 * labels[:, None, None, None]).astype(np.int64)
    assert rs.mutual_information(maps, torch.from_numpy(labels)).value > 0.5


@pytest.mark.parametrize(
    ("features", "labels", "sentence"),
    [
        (np.zeros((40, 2)), np.zeros(40, int), "only one label"),
        (np.zeros((40, 2)), np.r_[np.zeros(30, int), np.ones(10, int)], "only 10 samples"),
        (np.full((40, 2), np.nan), np.arange(40) % 2, "NaN"),
        (np.zeros((40, 2)), np.arange(40) % 2 - 1, "out of range"),
        (np.zeros((40, 2)), np.arange(39) % 2, "expected one whole number for each of the 40"),
        (np.zeros((40, 2)), np.linspace(0, 1, 40), "whole number"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(features, labels, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        rs.mutual_information(features, labels)


def test_folds_spread_each_label_evenly():
    labels = torch.tensor([0] * 95 + [1] * 5)
    parts = stratified_folds(labels, 5)
    for part in range(5):
        assert torch.bincount(labels[parts == part]).tolist() == [19, 1]


def test_the_interval_leans_to_the_side_of_the_skew():
    """Means of forty exponential terms: the symmetric interval misses the truth above it far too often,
    and below it too rarely. Both sides come nearer 2.5 %."""
    terms = np.random.default_rng(0).exponential(size=(2000, 40))
    ours = [skewed(row) for row in terms]
    errors = [1.96 * float(row.std(ddof=1)) / 40**0.5 for row in terms]
    plain = [(float(row.mean()) - e, float(row.mean()) + e) for row, e in zip(terms, errors, strict=True)]
    misses = [
        (float(np.mean([high < 1 for _, high in found])), float(np.mean([low > 1 for low, _ in found])))
        for found in (ours, plain)
    ]
    assert misses[0][0] < misses[1][0] - 0.015
    assert abs(misses[0][1] - 0.025) < abs(misses[1][1] - 0.025)
    assert skewed(np.zeros(50)) == (0.0, 0.0)
