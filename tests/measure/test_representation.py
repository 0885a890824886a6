from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.measure import Representation

pytestmark = pytest.mark.usefixtures("one_thread")


def flat(weight: torch.Tensor, bias: torch.Tensor) -> rs.Classifier:
    """One linear block on the pixels."""
    layer = nn.Linear(64, len(weight))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return rs.Classifier([nn.Sequential(nn.Flatten(), layer)], nn.Linear(len(weight), 4)).eval()


def test_profiles_are_what_two_networks_share(task):
    """Turned, stretched and moved features have the same profile; others have not."""
    random = torch.Generator().manual_seed(0)
    w, b, other = (torch.randn(size, generator=random) for size in ((6, 64), (6,), (6, 64)))
    turn = torch.linalg.qr(torch.randn((6, 6), generator=random)).Q
    profile, same, another = (
        Representation()(model, task).arrays["profile.1"]
        for model in (flat(w, b), flat(3 * turn @ w, 3 * turn @ b + 5), flat(other, b))
    )
    assert profile.shape == (len(task.forget), 64)
    assert np.abs(profile).max() <= 1 + 1e-6
    np.testing.assert_allclose(same, profile, atol=1e-4)
    assert np.abs(another - profile).max() > 0.1


def test_features_that_do_not_vary_have_a_profile_of_zeros(task):
    found = Representation()(flat(torch.zeros(6, 64), torch.ones(6)), task).arrays["profile.1"]
    assert not found.any()


def test_no_anchors_are_refused(net, task):
    with pytest.raises(rs.InputError, match="anchors"):
        Representation(anchors=0)(net, task)
