"""Data and models that the tests of several commands share."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import residua as rs


@pytest.fixture
def folder(tmp_path):
    """MNIST's four files with 24 training and 4 test images a class, and two networks for them."""
    random = np.random.default_rng(0)
    for stem, per_class in (("train", 24), ("t10k", 4)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
        noise = random.integers(0, 40, (len(labels), 12, 12))
        images = (labels[:, None, None] * 22 + noise).astype(np.uint8)
        for name, array in (("images", images), ("labels", labels)):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"{stem}-{name}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())
    for seed, name in enumerate(("one", "two")):
        with rs.seeded(seed):
            rs.save(rs.networks.resnet18(classes=10, channels=1, width=2), tmp_path / f"{name}.safetensors")
    return tmp_path
