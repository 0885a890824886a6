"""Audit a network of your own, on data of your own: three models in, a verdict and a folder out."""

from __future__ import annotations

import sys

import numpy as np
from torch import nn

import residua as rs


def images(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Your data: uint8 images (N, channels, height, width) and labels. Here stripes in four directions."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 4
    y, x = np.mgrid[:8, :8]
    waves = np.sin(np.pi * np.stack([0 * x, x, x + y, y]) / 2)
    pixels = 128 + 60 * waves[labels] + random.normal(0, 25, (n, 8, 8))
    return pixels[:, None].clip(0, 255).astype(np.uint8), labels


def network() -> nn.Sequential:
    """Your network: an nn.Sequential here; rs.adopt(net, cuts=[...]) takes others."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(16, 4),
    )


def main(folder: str) -> None:
    data = rs.data.arrays(*images(600, seed=0), *images(300, seed=1), name="stripes")
    task = rs.forget_classes(data, [2])
    training = rs.Pretraining(epochs=8, batch=32, lr=0.05, crop=0, flip=False)
    with rs.seeded(0):
        original = training(rs.adopt(network()), task.train)
        reference = rs.unlearn.Retrain(training)(original, task)
        unlearned = rs.unlearn.HeadDistillation(epochs=5, crop=0, flip=False)(original, task)
    audit = rs.audit(original=original, unlearned=unlearned, reference=reference, task=task)
    print(audit.verdict)
    print(audit.sentence)
    print("what each block adds:", audit.idi.blocks if audit.idi else "not assessed")
    audit.save(folder)
    print("does not follow from its records:", rs.verify(folder) or "nothing")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "audit")
