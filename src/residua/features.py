"""Features of several blocks from one forward pass of a frozen model."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from residua.classifier import Classifier
from residua.device import memory_budget
from residua.errors import InputError
from residua.split import Split

BATCH = 500


def features(
    model: Classifier, split: Split, blocks: Sequence[int], *, budget: int | None = None
) -> dict[int, Tensor]:
    """Z_l of every example for each requested block, in the split's order, in float32.

    The last block's features are pooled, since its critic begins with the pooling. Maps are kept
    height x width x channels, (N, H, W, C). Beyond `budget` bytes (a quarter of the memory) they
    lie in a temporary file without a name; the numbers are the same. The model is read in eval mode,
    without augmentation, and left as it was.
    """
    was_training = model.training
    stores: dict[int, Tensor] = {}
    model.eval()
    try:
        with torch.inference_mode():
            start = 0
            for x, _ in split.batches(BATCH, device=model.device):
                found = model.features(x, blocks)
                if model.depth in found:
                    found[model.depth] = model.pool(found[model.depth])
                laid = {block: _laid_out(z) for block, z in found.items()}
                if not stores:
                    stores = _allocate({block: z.shape[1:] for block, z in laid.items()}, len(split), budget)
                for block, z in laid.items():
                    stores[block][start : start + len(x)] = z.float().cpu()
                start += len(x)
    finally:
        model.train(was_training)
    for block, z in stores.items():
        if not all(bool(torch.isfinite(part).all()) for part in z.split(4096)):
            raise InputError(
                f"the features of block {block} hold NaN or infinite values; the model's weights are damaged"
            )
    return stores


def _laid_out(z: Tensor) -> Tensor:
    return z.permute(0, 2, 3, 1) if z.ndim == 4 else z


def as_input(z: Tensor) -> Tensor:
    """Stored features as the next block takes them."""
    return z.permute(0, 3, 1, 2) if z.ndim == 4 else z


def _allocate(shapes: dict[int, torch.Size], n: int, budget: int | None) -> dict[int, Tensor]:
    total = 4 * n * sum(math.prod(shape) for shape in shapes.values())
    if total <= (memory_budget() if budget is None else budget):
        return {block: torch.empty(n, *shape) for block, shape in shapes.items()}
    stores = {}
    for block, shape in shapes.items():
        with tempfile.TemporaryFile() as file:
            stores[block] = torch.from_numpy(np.memmap(file, np.float32, mode="w+", shape=(n, *shape)))
    return stores
