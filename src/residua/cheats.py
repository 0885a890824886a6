"""Cheats: models that only look as if they had forgotten. Controls for metrics and verdicts, never methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.classifier import Classifier, clone
from residua.errors import InputError
from residua.task import ForgetTask


class Cheat(Protocol):
    label: str

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier: ...


@dataclass(frozen=True)
class LogitMasking:
    """Original, but forgotten classes are never answered: their logits are far below all others."""

    label = "Masking"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Masked(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class OutputRouter:
    """Original, but where it would answer with a forgotten class, any other class is answered at random."""

    label = "Router"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Routed(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class ConfidenceSmoothing:
    """Original, but less sure of everything: all logits are divided by `temperature`."""

    temperature: float = 5.0

    label = "Smoothing"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Smoothed(original.head, self.temperature))


CHEATS: dict[str, Cheat] = {
    cheat.label: cheat for cheat in (LogitMasking(), OutputRouter(), ConfidenceSmoothing())
}


class Masked(nn.Module):
    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        said = self.head(z)
        hidden = torch.isin(torch.arange(said.shape[1]), torch.tensor(self.forgotten)).to(z.device)
        return torch.where(hidden, said.detach().amin(dim=1, keepdim=True) - 20, said)


class Routed(nn.Module):
    """The random answer is drawn from the features' last digits, so that the model stays a function."""

    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        said = self.head(z)
        classes = said.shape[1]
        others = torch.tensor([c for c in range(classes) if c not in self.forgotten], device=z.device)
        chance = torch.frac(z.flatten(1).double().sum(dim=1).abs() * 1e4)
        drawn = others[(chance * len(others)).long().clamp(max=len(others) - 1)]
        random = 10 * F.one_hot(drawn, classes).to(said.dtype)
        caught = torch.isin(said.argmax(dim=1), torch.tensor(self.forgotten, device=z.device))
        return torch.where(caught[:, None], random, said)


class Smoothed(nn.Module):
    def __init__(self, head: nn.Module, temperature: float) -> None:
        super().__init__()
        self.head, self.temperature = clone(head), temperature

    def forward(self, z: Tensor) -> Tensor:
        return self.head(z) / self.temperature


def _with_head(original: Classifier, head: nn.Module) -> Classifier:
    model = clone(original)
    model.head = head
    return model.eval()


def _classes(label: str, task: ForgetTask) -> tuple[int, ...]:
    if not task.forgotten:
        raise InputError(f"{label} hides whole classes; give a task that forgets classes")
    return task.forgotten
