from __future__ import annotations

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from residua.calibration import Problem
from residua.critic import Standardised, cloud_scores, linear_scores
from residua.information import frequencies, log_ratio, mutual_information


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
        standard = Standardised(z[fit])
        found = scores(standard(z[fit]), y[fit], standard(z[~fit]), prior)
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
