"""Data-parallel training under `torchrun`: one process for each GPU, and each has its part of every batch.

All processes draw the same batches from the same seed, and number r of n takes samples r, r + n, r + 2n, ... of each.
Gradients are averaged over the samples of all parts before every update, so that the model is that of one process with
the same batches, up to rounding, for any loss that is a mean over samples. Three things are other ones: BatchNorm
normalises each part by its own mean and variance, and the first process's running statistics are kept; losses that
compare the samples of a batch (COLA's) compare those of a part; and dropout masks repeat from part to part.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from residua.data.split import Part, one_part

# The part of this process, inside a body of `joined` that several processes share.
together: ContextVar[Part | None] = ContextVar("together", default=None)


def leads() -> bool:
    """True if this process writes what all have computed: the first does, and one that trains alone."""
    part = together.get()
    return part is None or part.number == 0


def agree(tensors: Mapping[str, Tensor]) -> None:
    """Give every process the first one's numbers, in place."""
    for tensor in tensors.values():
        dist.broadcast(tensor, 0)


def parts(batches: Iterable[Any], part: Part) -> Iterator[Any]:
    """This process's part of each batch: only they are shared, not what else a watcher or method looks at."""
    source = iter(batches)
    while True:
        with one_part(part):
            batch = next(source, None)
        if batch is None:
            return
        yield batch


def average(optimizer: torch.optim.Optimizer, batch: tuple[Any, ...]) -> None:
    """Replace each gradient by its mean over the samples of all parts of the batch, in one message."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    n = next((len(each) for each in batch if isinstance(each, Tensor) and each.ndim), 1)
    flat = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1).float() * n for p in parameters]
    joined = torch.cat([*flat, torch.full((1,), float(n), device=flat[0].device)])
    dist.all_reduce(joined)
    means = (joined[:-1] / joined[-1]).split([p.numel() for p in parameters])
    for p, mean in zip(parameters, means, strict=True):
        p.grad = mean.view_as(p).to(p.dtype)


def world() -> Part:
    """Number of this process and number of processes, as `torchrun` says."""
    return Part(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[bool]:
    """In the body trainings are shared by all processes that `torchrun` started; True in the one that writes results."""
    part = world()
    if part.of == 1:
        yield True
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    token = together.set(part)
    try:
        yield part.number == 0
    finally:
        together.reset(token)
        dist.destroy_process_group()
