"""Cheats: models that only look as if they had forgotten. Controls for metrics and verdicts, never methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone
from residua.training.settings import Temperature, check_settings
from residua.unlearn._disguises import Masked


class Cheat(Protocol):
    label: str

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier: ...


@dataclass(frozen=True)
class LogitMasking:
    """Original, but forgotten classes are never answered: their logits are far below all others."""

    label = "Masking"
    keeps_encoder = True
    quick = True
    guarded = False
    savable = False
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Masked(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class OutputRouter:
    """Original, but where it would answer with a forgotten class, any other class is answered at random."""

    label = "Router"
    keeps_encoder = True
    quick = True
    guarded = False
    savable = False
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Routed(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class ConfidenceSmoothing:
    """Original, but less sure of everything: all logits are divided by `temperature`."""

    temperature: Annotated[float, Temperature("What all logits are divided by.")] = 5.0

    label = "Smoothing"
    keeps_encoder = True
    quick = True
    guarded = False
    savable = False

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Smoothed(original.head, self.temperature))


CHEATS: dict[str, Cheat] = {
    cheat.label: cheat for cheat in (LogitMasking(), OutputRouter(), ConfidenceSmoothing())
}


class Routed(nn.Module):
    """The random answer is drawn from the features' last digits, so that the model stays a function."""

    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        logits = self.head(z)
        classes = logits.shape[1]
        others = torch.tensor([c for c in range(classes) if c not in self.forgotten], device=z.device)
        chance = torch.frac(z.flatten(1).double().sum(dim=1).abs() * 1e4)
        drawn = others[(chance * len(others)).long().clamp(max=len(others) - 1)]
        random = 10 * F.one_hot(drawn, classes).to(logits.dtype)
        caught = torch.isin(logits.argmax(dim=1), torch.tensor(self.forgotten, device=z.device))
        return torch.where(caught[:, None], random, logits)


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
