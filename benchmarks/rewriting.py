"""Rewriting: the same model with a block's features written down in other coordinates.

I(Z; Y) does not change under an invertible map of Z, so no reading may. The map is undone in the weights of the next
block, or of the head: the model computes what it did, and nothing in it shows how to undo the map.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.classifier import Classifier, clone


class Mixed(nn.Module):
    """Channels of maps (N, C, H, W) multiplied by a matrix."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.float())

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("nchw,dc->ndhw", x, self.matrix)

    def reset_parameters(self) -> None:
        """A critic with new weights keeps the matrix: there is nothing to learn in it."""


def mixing(width: int, condition: float, seed: int) -> Tensor:
    """A random matrix with this ratio of its largest to its smallest singular value; 1 is a rotation."""
    random = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64))[0] for _ in range(2)
    )
    return left * torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), width).double() @ right


def rewritten(model: Classifier, block: int, by: Tensor) -> Classifier:
    """The same function: the channels of `block` are multiplied by a matrix, and the next block or the head undoes it."""
    model, back = clone(model), torch.linalg.inv(by)
    blocks = list(model.blocks)
    blocks[block - 1] = nn.Sequential(blocks[block - 1], Mixed(by))
    if block == len(blocks):
        model.head.weight.data = (model.head.weight.data.double() @ back).float()
    else:
        _undo(blocks[block], back)
    return Classifier(blocks, model.head, pool=model.pool, architecture=model.architecture).eval()


def _undo(block: nn.Module, back: Tensor) -> None:
    """Multiply every convolution that reads the block's input by `back`."""
    unit: Any = block[0] if isinstance(block, nn.Sequential) else block
    if not isinstance(getattr(unit, "shortcut", None), nn.Sequential):
        raise InputError("a block is rewritten before a stage of a ResNet only; choose one of blocks 2 to 5")
    for conv in (unit.conv1, unit.shortcut[0]):
        weight = torch.einsum("ochw,cd->odhw", conv.weight.data.double(), back)
        conv.weight.data = weight.float().contiguous()
