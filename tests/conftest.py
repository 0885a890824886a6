"""Small data and models that every room's tests share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua import outputs

torch.set_num_threads(min(2, torch.get_num_threads()))


def make_arrays(n: int, classes: int = 4, channels: int = 1, side: int = 8, seed: int = 0):
    """Images whose class shows in their brightness, with noise: learnable within seconds."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    level = 40 + 170 * labels / max(classes - 1, 1)
    images = level[:, None, None, None] + rng.normal(0, 12, (n, channels, side, side))
    return images.clip(0, 255).astype(np.uint8), labels.astype(np.int64)


@pytest.fixture(scope="session")
def data() -> rs.Dataset:
    return rs.datasets.arrays(*make_arrays(240, seed=0), *make_arrays(80, seed=1), name="levels")


@pytest.fixture(scope="session")
def task(data) -> rs.ForgetTask:
    return rs.forget_classes(data, 2)


@pytest.fixture(autouse=True)
def _no_pass_remembered():
    """Each test makes its own forward passes."""
    outputs._passes.clear()


@pytest.fixture
def net() -> rs.Classifier:
    with rs.seeded(0):
        return rs.networks.resnet18(classes=4, channels=1, width=2)


@pytest.fixture
def one_thread():
    """Small linear algebra is faster, and never depends on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
