from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from residua.measure.information.calibration import Problem
from residua.measure.information.coordinates import canonical
from residua.measure.information.critics import _root, cloud_scores, quadratic_scores
from residua.measure.information.estimate import mutual_information
from residua.measure.information.families import log_ratio
from residua.measure.information.linear import RIDGES, linear_scores, linear_weights
from residua.measure.information.samples import frequencies


def drawn(problem: Problem, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = problem.draw(np.random.default_rng(seed))
    return torch.from_numpy(features), torch.from_numpy(labels)


def test_clouds_with_plenty_of_samples_are_linear_discriminant_analysis():
    problem = Problem("ten", "grid", 6000, 4, 1.5, labels=10)
    z, y = drawn(problem, 0)
    prior = frequencies(y)
    log_q = torch.log_softmax(cloud_scores(z, y, z, prior)[0] + prior.log(), dim=1)
    theirs = LinearDiscriminantAnalysis().fit(z.numpy(), y.numpy()).predict_log_proba(z.numpy())
    # Theirs shrinks nothing; with 600 samples a label ours hardly does.
    apart = np.abs(log_q.exp().numpy() - np.exp(theirs))
    assert apart.mean() < 0.003
    assert apart.max() < 0.15


def test_few_samples_of_many_labels_are_read_by_clouds_and_not_by_free_weights():
    problem = Problem("forty of thirty", "grid", 1200, 8, 2.0, labels=40)
    (z, y), truth = drawn(problem, 0), problem.truth()
    prior = frequencies(y)
    fit = torch.arange(len(y)) < 600
    missed = {}
    for name, scores in {"clouds": cloud_scores, "weights": linear_scores}.items():
        coordinates = canonical(z)
        found = scores(coordinates(z[fit]), y[fit], coordinates(z[~fit]), prior)
        missed[name] = truth - max(float(log_ratio(s, y[~fit], prior).mean()) for s in found)
    assert missed["clouds"] < 0.2
    assert missed["weights"] > 3 * missed["clouds"]


def test_thirty_labels_that_do_not_differ_tell_nothing():
    random = torch.Generator().manual_seed(0)
    z, y = torch.randn(900, 20, generator=random), torch.arange(900) % 30
    assert abs(mutual_information(z, y).value) <= 0.01


def test_a_feature_that_never_varies_leaves_the_clouds_finite():
    z, y = torch.randn(90, 3), torch.arange(90) % 3
    z[:, 1] = 0
    assert torch.isfinite(cloud_scores(z, y, z, frequencies(y))).all()


@pytest.mark.parametrize(("below", "floor"), [(0.0, 1e-6), (-5e-6, 1.1e-5), (-5e-3, 1.1111e-2)])
def test_the_floor_rises_until_a_covariance_is_positive(below, floor):
    covariance = torch.diag(torch.tensor([1.0, 2.0, below], dtype=torch.float64))
    root = _root(covariance.clone())
    assert torch.allclose(root @ root.T, covariance + floor * torch.eye(3, dtype=torch.float64), rtol=1e-3)


def test_linear_critics_are_logistic_regression():
    problem = Problem("two", "shift", 1500, 6, 1.5)
    z, y = drawn(problem, 0)
    prior = frequencies(y)
    ours = linear_scores(z, y, z, prior)
    for ridge, scores in zip((1e-1, 1e-2), ours, strict=False):
        theirs = LogisticRegression(C=1 / (ridge * len(y)), tol=1e-8).fit(z.numpy(), y.numpy())
        odds = (scores[:, 1] - scores[:, 0] + prior[1].log() - prior[0].log()).numpy()
        assert np.abs(odds - theirs.decision_function(z.numpy())).max() < 1e-3


@pytest.mark.parametrize(("labels", "features"), [(2, 6), (2, 200), (5, 12), (30, 150)])
def test_linear_critics_reach_the_optimum_of_scikit_learn(labels, features):
    """The same objective, ours at least as low; strong and weak ridges, few and many features, two and more labels."""
    random = np.random.default_rng(0)
    y = np.arange(1200) % labels
    z = random.normal(size=(1200, features)) + random.normal(size=(labels, features))[y] / features**0.5
    prior = frequencies(torch.from_numpy(y))
    ours = linear_weights(torch.from_numpy(z), torch.from_numpy(y), prior)

    def objective(w, intercept, ridge):
        logits = z @ w.T + intercept
        logits = np.c_[np.zeros(len(y)), logits] if labels == 2 else logits
        log_q = torch.log_softmax(torch.from_numpy(logits), dim=1).numpy()
        return -log_q[np.arange(len(y)), y].mean() + ridge / 2 * (w**2).sum()

    for ridge, w in zip(RIDGES, ours.numpy(), strict=True):
        theirs = LogisticRegression(C=1 / (ridge * len(y)), tol=1e-10, max_iter=20_000).fit(z, y)
        best = objective(theirs.coef_, theirs.intercept_, ridge)
        # Labels are equally frequent, so that their logarithms move no score.
        assert objective(w[:, :-1], w[:, -1], ridge) <= best * (1 + 1e-8)


def test_features_in_single_precision_are_fitted_as_in_double():
    random = torch.Generator().manual_seed(0)
    z, y = torch.randn(900, 160, generator=random), torch.arange(900) % 2
    z[:, 0] += y
    one, two = (linear_scores(z.to(kind), y, z.to(kind), frequencies(y)) for kind in (torch.float32, torch.float64))
    assert (one - two).abs().max() < 1e-3


def test_clouds_with_covariances_of_their_own_are_quadratic_discriminant_analysis(monkeypatch):
    from residua.measure.information import critics

    monkeypatch.setattr(critics, "SHRINKAGES", (0.0,))
    monkeypatch.setattr(critics, "TAIL", 1e6)
    problem = Problem("two", "scale", 4000, 5, 1.5)
    z, y = drawn(problem, 0)
    scores = quadratic_scores(z, y, z, frequencies(y))[0]
    theirs = QuadraticDiscriminantAnalysis(priors=[0.5, 0.5]).fit(z.numpy(), y.numpy())
    apart = (scores[:, 1] - scores[:, 0]).numpy() - theirs.decision_function(z.numpy())
    assert np.abs(apart).max() < 0.05


def test_a_scrambled_sign_whose_key_is_kept_is_read():
    random = np.random.default_rng(0)
    y = (random.random(3000) < 0.3).astype(np.int64)
    known, sign = random.normal(size=3000) + 2.0 * y, random.choice([-1.0, 1.0], 3000)
    plain = np.c_[known, random.normal(size=(3000, 5))]
    scrambled = np.c_[known * sign, sign, random.normal(size=(3000, 4))]
    open_, hidden = (mutual_information(z, y).value for z in (plain, scrambled))
    assert hidden > 0.9 * open_
