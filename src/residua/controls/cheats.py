"""Cheats: Original with another head, which only looks as if it had forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone
from residua.training.settings import Checked, Temperature
from residua.unlearn import Unlearner


class Control(Checked):
    """Traits that all controls share: no guard judges them, and no checkpoint rebuilds them."""

    role = "control"
    guarded = False
    savable = False


class _NewHead(Control):
    keeps_encoder = True
    quick = True


@dataclass(frozen=True)
class LogitMasking(_NewHead):
    """Original, but forgotten classes are never answered: their logits are far below all others."""

    label = "Masking"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Masked(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class OutputRouter(_NewHead):
    """Original, but a random other class is answered wherever it would answer a forgotten one."""

    label = "Router"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Routed(original.head, _classes(self.label, task)))


@dataclass(frozen=True)
class ConfidenceSmoothing(_NewHead):
    """Original, but less confident everywhere: all logits are divided by `temperature`."""

    temperature: Annotated[float, Temperature("Divisor of all logits.")] = 5.0

    label = "Smoothing"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return _with_head(original, Smoothed(original.head, self.temperature))


CHEATS: dict[str, Unlearner] = {cheat.label: cheat for cheat in (LogitMasking(), OutputRouter(), ConfidenceSmoothing())}


class Masked(nn.Module):
    """A head whose logits of forgotten classes are far below all others."""

    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        logits = self.head(z)
        hidden = torch.isin(torch.arange(logits.shape[1]), torch.tensor(self.forgotten)).to(z.device)
        return torch.where(hidden, logits.detach().amin(dim=1, keepdim=True) - 20, logits)


class Routed(nn.Module):
    """A head with random answers in place of forgotten ones, drawn from the features so that it stays a function."""

    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        logits = self.head(z)
        classes = logits.shape[1]
        others = torch.tensor([c for c in range(classes) if c not in self.forgotten], device=z.device)
        drawn = others[(pseudo_random(z) * len(others)).long().clamp(max=len(others) - 1)]
        random = 10 * F.one_hot(drawn, classes).to(logits.dtype)
        caught = torch.isin(logits.argmax(dim=1), torch.tensor(self.forgotten, device=z.device))
        return torch.where(caught[:, None], random, logits)


class Smoothed(nn.Module):
    """A head whose logits are divided by a temperature."""

    def __init__(self, head: nn.Module, temperature: float) -> None:
        super().__init__()
        self.head, self.temperature = clone(head), temperature

    def forward(self, z: Tensor) -> Tensor:
        return self.head(z) / self.temperature


def pseudo_random(z: Tensor) -> Tensor:
    """A number in [0, 1) for each sample, from the last digits of its features, on the CPU: not every device has float64."""
    return torch.frac(z.flatten(1).cpu().double().sum(dim=1).abs() * 1e4).float().to(z.device)


def _with_head(original: Classifier, head: nn.Module) -> Classifier:
    model = clone(original)
    model.head = head
    return model.eval()


def _classes(label: str, task: ForgetTask) -> tuple[int, ...]:
    if not task.forgotten:
        raise InputError(f"{label} hides whole classes; give a task that forgets classes")
    return task.forgotten
