"""Models whose answers are planted, image by image: every image is a code, every code a row of a table."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import residua as rs

CLASSES, TRAIN, TEST = 4, 400, 400


class Code(nn.Module):
    """The two pixels of an image, as a number to base 256, and from it a row of a table."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        digits = (x.flatten(1) * 255).round().long()
        return nn.functional.one_hot(digits[:, 0] * 256 + digits[:, 1], TRAIN + TEST).float()


def saying(table: np.ndarray) -> rs.Classifier:
    """A classifier with these logits (TRAIN + TEST, CLASSES)."""
    head = nn.Linear(TRAIN + TEST, table.shape[1], bias=False)
    head.weight.data = torch.as_tensor(table.T, dtype=torch.float32).contiguous()
    return rs.Classifier([Code()], head)


def coded(labels: np.ndarray | None = None) -> rs.Dataset:
    """Training images have the codes 0 to 399, test images 400 to 799; the class is code mod 4."""
    codes = np.arange(TRAIN + TEST)
    images = np.stack([codes // 256, codes % 256], axis=1).astype(np.uint8)[:, None, None, :]
    labels = codes % CLASSES if labels is None else labels
    return rs.data.arrays(
        images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:],
        mean=[0.0], std=[1.0], classes=CLASSES, name="codes",
    )  # fmt: skip


TRUTH = np.arange(TRAIN + TEST) % CLASSES


def memorised(known: np.ndarray, seed: int = 0) -> np.ndarray:
    """Logits that are sure of the truth where `known`, and elsewhere as sure of a random class."""
    random = np.random.default_rng(seed)
    said = np.where(known, TRUTH, random.integers(0, CLASSES, TRAIN + TEST))
    sure = np.where(known, 8.0, 2.0) + random.normal(0, 0.3, TRAIN + TEST)
    return np.eye(CLASSES)[said] * sure[:, None]
