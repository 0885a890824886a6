"""Keeping: a long training saves its state, and resumes from it: on a CPU bit-identically, on a GPU up to its sums.

Trainings inside `kept_at(path)` do so by themselves: every few minutes, at the end of an epoch, model,
optimizer, random state and history are written to a safetensors file; the next run inside the same path begins after
the last kept epoch. A method may train in several phases. Each that asks for a `keeper` has a file of its own, and one
that took more than a moment is kept at its end too, so that the next run skips it. The files belong to one run: the
caller names them after all that it depends on, and they are gone once it is over.

A training may only ask if all that changes in it is in its model, its optimizer and PyTorch's random state: a counter
in a loss would begin again at 0.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.files import write_atomically
from residua.progress import holding
from residua.text import from_json

# Seconds between two writes: a crash costs no more than these.
EVERY = 120.0
# The part of them that a phase must have taken to be kept at its end.
MOMENT = 0.1
KEY = "residua"


@dataclass
class Keeper:
    """Writes and reads the state of one phase."""

    path: Path
    every: float = EVERY
    _last: float = field(default_factory=time.monotonic)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> list[float]:
        """Put everything back as it was after the last kept epoch; the losses so far. Nothing where nothing was kept."""
        try:
            state, tensors = read_state(self.path)
            own = _under("model.", tensors)
            if _shapes(own) != _shapes(model.state_dict()):
                return []
            moments = [_under(f"optimizer.{i}.", tensors) for i in range(len(_parameters(optimizer)))]
        except (InputError, KeyError):
            return []  # none, or a damaged one: the training begins at the beginning
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(own[name])
        for parameter, moment in zip(_parameters(optimizer), moments, strict=True):
            if moment:
                optimizer.state[parameter] = {
                    name: tensor if name == "step" else _like(tensor, parameter) for name, tensor in moment.items()
                }
        torch.set_rng_state(tensors["random"])
        gpus = [state for name, state in sorted(tensors.items()) if name.startswith("random.")]
        if gpus and len(gpus) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(gpus)
        if state.get("scaler") and scaler.is_enabled():
            scaler.load_state_dict(state["scaler"])
        return [float(loss) for loss in state["history"]]

    def keep(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, history: list[float],
        scaler: torch.amp.GradScaler, *, end: bool,
    ) -> None:  # fmt: skip
        """Write the state down, if the last time is long enough ago; at the end of a phase a moment is."""
        if time.monotonic() - self._last < self.every * (MOMENT if end else 1.0):
            return
        tensors = {f"model.{name}": _plain(tensor) for name, tensor in model.state_dict().items()}
        for i, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{i}.{name}"] = _plain(value)
        tensors["random"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            tensors |= {f"random.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
        state = json.dumps({"history": history, "scaler": scaler.state_dict()})
        about = {KEY: state, "sha256": _hash(state, tensors)}
        write_atomically(self.path, lambda part: save_file(tensors, part, metadata=about))
        self._last = time.monotonic()


def read_state(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """The state that was kept in this file: losses and the like, and tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        if about.get("sha256") != _hash(about.get(KEY, ""), tensors):
            raise ValueError("its content does not match its hash")
        return from_json(about[KEY]), tensors
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not the state of a training ({first_line(error)}); remove it") from error


def _hash(state: str, tensors: Mapping[str, Tensor]) -> str:
    sha = hashlib.sha256(state.encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


@dataclass
class _Phases:
    """The phases of one run, numbered as they ask."""

    path: Path
    every: float
    count: int = 0

    def place(self, number: int) -> Path:
        return self.path.with_suffix(f".{number}{self.path.suffix}") if number else self.path

    def next(self) -> Keeper:
        self.count += 1
        return Keeper(self.place(self.count - 1), self.every)


_phases: ContextVar[_Phases | None] = ContextVar("phases", default=None)


@contextlib.contextmanager
def kept_at(path: Path, every: float = EVERY) -> Iterator[None]:
    """The resumable trainings in the body keep their states here and beside it; they are gone once it is over."""
    phases = _Phases(path, every)
    with holding(_phases, phases):
        yield
        for number in range(phases.count):
            phases.place(number).unlink(missing_ok=True)


def unkept() -> AbstractContextManager[None]:
    """The trainings in the body begin at the beginning, for callers that follow all of it."""
    return holding(_phases, None)


def keeper() -> Keeper | None:
    """The keeper of the next training, inside a body of `kept_at`; None outside."""
    phases = _phases.get()
    return phases.next() if phases else None


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """On the parameter's device and in its layout, as the optimizer had it. (Adam counts steps on the processor.)"""
    if tensor.shape != parameter.shape:
        return tensor.to(parameter.device)
    return torch.empty_like(parameter.detach()).copy_(tensor)
