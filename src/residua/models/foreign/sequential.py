"""nn.Sequential: a new block begins at every layer with a matrix or a kernel."""

from __future__ import annotations

import itertools

from torch import nn

from residua.errors import InputError
from residua.models.classifier import Classifier

POOLING = ("Flatten", "Identity", "Pool1d", "Pool2d", "Pool3d", "Pool")


def in_sequence(module: nn.Sequential) -> Classifier:
    """Norms, activations and poolings end the block that they follow; the last layer is the head.

    Poolings directly before the head are `pool`. Dropout there belongs to the head, whose features
    are those of the block before it.
    """
    parts = list(module)
    heavy = [i for i, part in enumerate(parts) if _learns_a_matrix(part)]
    if len(heavy) < 2:
        raise InputError(
            f"this nn.Sequential has {len(heavy)} layers with weights among its {len(parts)} parts, expected at "
            "least 2, a block and the head; pass the network inside it, or give cuts"
        )
    head = heavy[-1]
    while isinstance(parts[head - 1], nn.Dropout):
        head -= 1
    pool = head
    while _only_pools(parts[pool - 1]):
        pool -= 1
    starts = [0, *heavy[1:-1], pool]
    blocks = [_together(parts[a:b]) for a, b in itertools.pairwise(starts)]
    return Classifier(blocks, _together(parts[head:]), pool=_together(parts[pool:head]))


def _learns_a_matrix(part: nn.Module) -> bool:
    return any(p.ndim > 1 for p in part.parameters())


def _only_pools(part: nn.Module) -> bool:
    learns = next(part.parameters(), None) is not None
    return not learns and type(part).__name__.endswith(POOLING)


def _together(parts: list[nn.Module]) -> nn.Module:
    if not parts:
        return nn.Identity()
    return parts[0] if len(parts) == 1 else nn.Sequential(*parts)
