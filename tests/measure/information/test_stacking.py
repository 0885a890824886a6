"""Weights of critics: the optimum, also where critics are all but equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from residua.measure.information.families import best_weights, combine, log_ratio, read_family


def critics(labels: int, n: int = 400, copies: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five critics of one dependence, of which three differ by `copies`; labels; their frequencies."""
    torch.manual_seed(labels)
    y = torch.arange(n) % labels
    truth = 2.0 * torch.nn.functional.one_hot(y, labels).double() + torch.randn(n, labels, dtype=torch.float64)
    alike = [truth + copies * torch.randn_like(truth) for _ in range(3)]
    other = [3 * truth + torch.randn_like(truth), torch.randn_like(truth)]
    return torch.stack([*alike, *other]), y, torch.full((labels,), 1 / labels, dtype=torch.float64)


def loss(w: np.ndarray, scores: torch.Tensor, y: torch.Tensor, prior: torch.Tensor) -> float:
    weights = torch.tensor(w, dtype=torch.float64)
    return float(w @ w) / (2 * len(y)) - float(log_ratio(combine(scores, weights), y, prior).mean())


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("copies", [0.0, 1e-6, 1e-2, 1.0])
def test_the_weights_are_those_of_a_bounded_quasi_newton_method(labels, copies):
    scores, y, prior = critics(labels, copies=copies)
    ours = best_weights(scores, y, prior).numpy()
    theirs = minimize(
        loss, np.full(5, 0.1), (scores, y, prior), method="L-BFGS-B", bounds=[(0, None)] * 5, options={"ftol": 1e-14}
    )
    assert (ours >= 0).all()
    assert loss(ours, scores, y, prior) <= theirs.fun + 1e-7


def test_a_critic_that_only_memorised_gets_no_weight():
    scores, y, prior = critics(2)
    assert best_weights(torch.randn_like(scores[:1]) * 5, y, prior) == pytest.approx(0, abs=0.05)


def test_critics_that_are_given_twice_read_what_they_read_once():
    scores, y, prior = critics(2, copies=0.3)
    fold = torch.arange(len(y)) % 4
    once = read_family("stack", {5: {"linear": scores}}, y, fold, prior)[5].terms.mean()
    same = read_family("stack", {5: {"linear": scores, "network": scores}}, y, fold, prior)[5].terms.mean()
    copied = read_family("stack", {5: {"linear": scores, "network": scores.clone()}}, y, fold, prior)[5].terms.mean()
    assert float(same) == float(once)
    assert float(copied) == pytest.approx(float(once), abs=2e-3)
