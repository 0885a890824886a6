"""Features of several blocks from one forward pass of a frozen model."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from residua.data.split import Split
from residua.device import memory_budget
from residua.errors import InputError
from residua.measure._outputs import observe
from residua.models.classifier import Classifier


def features(
    model: Classifier, parts: Split | Sequence[Split], blocks: Sequence[int], *, budget: int | None = None
) -> dict[int, Tensor]:
    """Z_l of every example for each requested block, in the order of the split (or of several), in float32.

    The last block's features are pooled, since its critic begins with the pooling. Maps are kept
    height x width x channels, (N, H, W, C). Beyond `budget` bytes (a quarter of the memory) they
    are in a temporary file without a name; the numbers are the same. The model is read in eval mode,
    without augmentation, and left as it was. The pass goes on to the logits and is remembered (`_outputs.py`).
    """
    parts = [parts] if isinstance(parts, Split) else list(parts)
    for block in blocks:
        if not 1 <= block <= model.depth:
            raise InputError(f"block {block} does not exist; this network has blocks 1 to {model.depth}")
    batch: dict[int, Tensor] = {}
    stores: dict[int, Tensor] = {}
    done = 0

    def see(block: int, z: Tensor) -> None:
        nonlocal done
        if block in blocks:
            batch[block] = _laid_out(z).float().cpu().clone()  # the next block may work in place
        if block == model.depth:
            if not stores:
                shapes = {i: kept.shape[1:] for i, kept in batch.items()}
                stores.update(_allocate(shapes, sum(len(part) for part in parts), budget))
            for i, kept in batch.items():
                stores[i][done : done + len(kept)] = kept
            done += len(z)

    for part in parts:
        observe(model, part, see)
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
