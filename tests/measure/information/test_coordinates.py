from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.measure.information.coordinates import canonical


def features(n: int = 2000, d: int = 6) -> torch.Tensor:
    """No two directions have the same tails, so that each can be told from the others."""
    random = np.random.default_rng(0)
    z = np.stack([random.gamma(0.5 + i, size=n) for i in range(d)], axis=1)
    return torch.from_numpy(z).double()


def matrix(d: int, condition: float, seed: int) -> torch.Tensor:
    random = np.random.default_rng(seed)
    left, right = (np.linalg.qr(random.normal(size=(d, d)))[0] for _ in range(2))
    return torch.from_numpy(left * np.geomspace(1, 1 / condition, d) @ right)


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_coordinates_do_not_depend_on_how_features_are_written_down(condition):
    z = features()
    plain, mixed = canonical(z)(z), canonical(w := z @ matrix(6, condition, 1) + 5.0)(w)
    assert (plain - mixed).abs().max() < 1e-2 * plain.abs().max()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_one_channel_may_be_any_times_larger(scale):
    z = features()
    other = z.clone()
    other[:, 2] *= scale
    assert torch.allclose(canonical(z)(z), canonical(other)(other), atol=1e-3)


def test_directions_are_white_and_dead_channels_become_zero():
    z = torch.cat([features(), torch.full((2000, 2), 3.0, dtype=torch.float64)], dim=1)
    x = canonical(z)(z)
    assert x.shape == z.shape
    assert torch.allclose(x[:, 6:], torch.zeros(2000, 2, dtype=x.dtype), atol=1e-5)
    correlation = torch.corrcoef(x[:, :6].T)
    assert (correlation - torch.eye(6)).abs().max() < 0.25  # robust weights whiten the bulk, not the tails


def test_a_few_huge_rows_do_not_shrink_the_rest():
    z = features()
    spoilt = z.clone()
    spoilt[::100, 0] += 1e5
    inliers = torch.arange(2000) % 100 != 0
    spread = canonical(spoilt)(spoilt)[inliers].std(0)
    assert float(spread[:6].min()) > 0.3


def test_maps_keep_their_shape():
    maps = torch.randn(50, 4, 4, 3)
    assert canonical(maps)(maps).shape == maps.shape


def test_information_in_a_direction_that_was_shrunk_is_read():
    random = np.random.default_rng(1)
    y = (random.random(2000) < 0.3).astype(np.int64)
    z = np.c_[random.normal(size=2000) + 2 * y, random.normal(size=(2000, 5))]
    hidden = z @ matrix(6, 1e4, 3).numpy()
    plain, shrunk = (rs.mutual_information(x, y).value for x in (z, hidden))
    assert shrunk == pytest.approx(plain, abs=0.005)
