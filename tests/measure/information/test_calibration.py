from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from residua.measure._outputs import features
from residua.measure.information.calibration import (
    MAPS,
    PLANE,
    PROBLEMS,
    Calibration,
    Problem,
    calibrate,
    planted_network,
    planted_task,
)


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p.labels <= 10], ids=lambda problem: problem.name)
def test_the_truth_is_the_mean_log_ratio_of_its_own_draws(problem):
    """Monte Carlo with the true densities, which shares nothing with the quadrature."""
    plain = dataclasses.replace(problem, condition=1.0, faint=1.0)  # neither changes what is known
    grid = problem.kind == "grid"
    z, y = dataclasses.replace(plain, dimensions=2 if grid else plain.dimensions).draw(
        np.random.default_rng(0), 100_000
    )
    shares = np.full(problem.labels, 1 / problem.labels)
    if problem.labels == 2:
        shares = np.array([1 - problem.positive, problem.positive])
    if problem.kind in MAPS:  # the channel that tells is found by its variance
        flat = z.reshape(-1, z.shape[-1])
        z = z @ np.linalg.eigh(np.cov(flat[np.repeat(y == 1, PLANE**2)].T))[1][:, -1]
    if problem.kind == "texture":
        length = np.abs(z).sum((1, 2))
        logs = np.stack([-length, -length / problem.strength - PLANE**2 * np.log(problem.strength)], 1)
    elif problem.kind in ("scale", "squares"):  # rotations of channels keep the length
        square = (z.reshape(len(z), -1) ** 2).sum(1)
        wide, variance = z[0].size, problem.strength**2
        logs = np.stack([-square / 2, -square / variance / 2 - wide / 2 * np.log(variance)], 1)
    elif problem.kind == "sign":
        pytest.skip("an invertible map of a shift")
    else:
        centres = np.array([z[y == c].mean(0) for c in range(problem.labels)])
        logs = -((z[:, None, :] - centres) ** 2).sum(2) / 2
    top = logs.max(1, keepdims=True)
    mixture = np.log((shares * np.exp(logs - top)).sum(1)) + top[:, 0]
    assert problem.truth() == pytest.approx((logs[np.arange(len(y)), y] - mixture).mean(), abs=0.008)


def test_a_scrambled_sign_and_its_key_give_the_shift_back():
    problem = next(problem for problem in PROBLEMS if problem.kind == "sign")
    plain = dataclasses.replace(problem, kind="shift")
    assert problem.truth() == plain.truth()


def test_planted_features_are_what_the_networks_block_gives():
    problem = Problem("small", "shift", 60, 3, 1.0)
    task, table = planted_task(problem, seed=4)
    network = planted_network(table, labels=2)
    both = task.retain.joined(task.forget)
    z = features(network, both, [1])[1]
    assert torch.equal(z, table[both.index])
    drawn, labels = problem.draw(np.random.default_rng(4), 60)
    assert np.allclose(table[:60].numpy(), drawn, atol=1e-5)
    assert both.labels.tolist() == labels[both.index.numpy()].tolist()


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
