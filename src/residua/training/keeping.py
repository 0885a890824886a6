"""Keeping: a long training writes down where it is, and goes on from there bit-identically.

Whoever runs a training inside `kept_at(path)` gets this for nothing: every few minutes, at the end of an epoch, model,
optimizer, random state and history are written to one safetensors file; the next training inside the same path
begins after the last kept epoch. The file belongs to one training: the caller names it after all that the training
depends on, and removes it afterwards.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from residua.files import write_atomically

# Seconds between two writes: a crash costs no more than these.
EVERY = 120.0
KEY = "residua"


@dataclass
class Keeper:
    """Writes and reads the state of one training."""

    path: Path
    every: float = EVERY
    _last: float = field(default_factory=time.monotonic)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
        """Put everything back as it was after the last kept epoch; the losses so far. Nothing where nothing was kept."""
        try:
            with safe_open(self.path, framework="pt") as file:
                state = json.loads((file.metadata() or {})[KEY])
                tensors = {name: file.get_tensor(name) for name in file.keys()}
            own = _under("model.", tensors)
            if own.keys() != model.state_dict().keys():
                return []
            moments = [_under(f"optimizer.{i}.", tensors) for i in range(len(_parameters(optimizer)))]
        except (OSError, SafetensorError, ValueError, KeyError):
            return []  # none, or a damaged one: the training begins at the beginning
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(own[name])
        for parameter, moment in zip(_parameters(optimizer), moments, strict=True):
            if moment:
                optimizer.state[parameter] = {
                    name: _like(tensor, parameter) for name, tensor in moment.items()
                }
        torch.set_rng_state(tensors["random"])
        gpus = [state for name, state in sorted(tensors.items()) if name.startswith("random.")]
        if gpus and len(gpus) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(gpus)
        return [float(loss) for loss in state["history"]]

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, history: list[float]) -> None:
        """Write the state down, if the last time is long enough ago."""
        if time.monotonic() - self._last < self.every:
            return
        tensors = {f"model.{name}": _plain(tensor) for name, tensor in model.state_dict().items()}
        for i, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{i}.{name}"] = _plain(value)
        tensors["random"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors |= {f"random.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
        about = {KEY: json.dumps({"history": history})}
        write_atomically(self.path, lambda part: save_file(tensors, part, metadata=about))
        self._last = time.monotonic()


_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextlib.contextmanager
def kept_at(path: Path, every: float = EVERY) -> Iterator[None]:
    """The next resumable training in the body keeps its state in this file, which is gone once the body is over."""
    token = _keeper.set(Keeper(path, every))
    try:
        yield
        path.unlink(missing_ok=True)
    finally:
        _keeper.reset(token)


def keeper() -> Keeper | None:
    """The keeper of the body that this runs in, for the first training that asks."""
    one = _keeper.get()
    _keeper.set(None)
    return one


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """On the parameter's device and in its layout, as the optimizer had it."""
    if tensor.shape != parameter.shape:
        return tensor.to(parameter.device)
    return torch.empty_like(parameter.detach()).copy_(tensor)
