"""What disguises need to know of a network: its channels, and what its encoder makes of data."""

from __future__ import annotations

import torch
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier


def few(task: ForgetTask) -> Split:
    """Some images, to see what shapes a network makes of them."""
    return task.retain.subset(torch.arange(min(len(task.retain), 4)))


@torch.no_grad()
def channels(model: Classifier, task: ForgetTask, block: int) -> int:
    """How many channels a block has."""
    x, _ = next(iter(few(task).batches(4, device=model.device)))
    z = model.upto(block)(x)
    return int(z.shape[1] if z.ndim == 4 else z.shape[-1])


@torch.no_grad()
def encoded(model: Classifier, split: Split) -> Tensor:
    """What the encoder makes of a split, one vector per sample."""
    return torch.cat([model.encode(x) for x, _ in split.batches(500, device=model.device)])


def rotation(width: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(width, width, dtype=torch.float64))[0].float()
