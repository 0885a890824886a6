from __future__ import annotations

import numpy as np
import pytest

from residua.calibration import PROBLEMS, Calibration, Problem, calibrate


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_truth_is_the_mean_log_ratio_of_its_own_draws(problem):
    """Monte Carlo with the true densities, which shares nothing with the quadrature."""
    large = Problem(
        **{
            **problem.__dict__,
            "n": 200_000,
            "dimensions": 2 if problem.kind == "grid" else problem.dimensions,
        }
    )
    z, y = large.draw(np.random.default_rng(0))
    shares = np.full(problem.labels, 1 / problem.labels)
    if problem.labels == 2:
        shares = np.array([1 - problem.positive, problem.positive])
    if problem.kind == "scale":
        square = (z**2).sum(1)
        variance = problem.strength**2
        logs = np.stack([-square / 2, -square / variance / 2 - problem.dimensions / 2 * np.log(variance)], 1)
    else:
        centres = np.array([z[y == c].mean(0) for c in range(problem.labels)])
        logs = -((z[:, None, :] - centres) ** 2).sum(2) / 2 if problem.labels <= 10 else None
    if logs is None:
        pytest.skip("a hundred classes are checked through ten")
    top = logs.max(1, keepdims=True)
    mixture = np.log((shares * np.exp(logs - top)).sum(1)) + top[:, 0]
    found = (logs[np.arange(len(y)), y] - mixture).mean()
    assert problem.truth() == pytest.approx(found, abs=0.006)


def test_information_of_independent_coordinates_adds_up():
    line = Problem("line", "grid", 100, 4, 2.0, labels=7).truth()  # 1 x 7
    assert Problem("square", "grid", 100, 4, 2.0, labels=49).truth() == pytest.approx(2 * line)


def test_limits_of_the_known_problems():
    assert Problem("far", "shift", 10, 2, 30.0).truth() == pytest.approx(np.log(2), abs=1e-9)
    assert Problem("same", "shift", 10, 2, 0.0).truth() == 0
    assert Problem("same", "scale", 10, 4, 1.0).truth() == pytest.approx(0, abs=1e-12)
    assert Problem("far", "grid", 10, 2, 40.0, labels=6).truth() == pytest.approx(np.log(6), abs=1e-9)


def test_bias_spread_and_coverage_are_what_they_say():
    found = Calibration(
        PROBLEMS[0],
        truth=0.5,
        values=np.array([0.4, 0.5, 0.6, 0.7]),
        lows=np.array([0.3, 0.4, 0.55, 0.6]),
        highs=np.full(4, 0.8),
    )
    assert found.bias == pytest.approx(0.05)
    assert found.coverage == 0.5
    assert found.readings()["repeats"] == 4


def test_a_calibration_reads_fresh_draws(one_thread):
    found = calibrate(Problem("small", "shift", 200, 3, 1.0), repeats=2)
    assert found.values[0] != found.values[1]
