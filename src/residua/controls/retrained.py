"""Retrained: models that never saw the forgotten data, made otherwise than Original, and references that are none.

The first must not be accused; the second are what an audit has to name or to refuse among its references.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.controls.cheats import Control
from residua.controls.impostors import Trained, retrained_model
from residua.data.task import ForgetTask
from residua.models import networks
from residua.models.classifier import Classifier, clone, restart
from residua.training.pretraining import Pretraining
from residua.training.settings import Choice

How = Literal["half the width", "without augmentation", "label-smoothed", "pruned", "quantised"]
# The fraction of the weights that is pruned, the steps to either side that eight bits leave, and the smoothing.
PRUNED, STEPS, SMOOTHING = 0.3, 127, 0.1


@dataclass(frozen=True)
class RetrainedOtherwise(Control):
    """A retrained model of half the width, or trained without augmentation or on smoothed labels; or pruned by 30 %, or
    rounded to eight bits, afterwards."""

    how: Annotated[How, Choice("Difference from Original's training.")] = "half the width"
    pretraining: Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        return f"Retrain, {self.how}"

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        if self.how in ("pruned", "quantised"):
            return _changed(retrained or retrained_model(original, task, self.pretraining), self.how)
        if self.how == "half the width":
            made: dict[str, Any] = dict(original.architecture)
            narrow = networks.build(**made | {"width": max(1, made["width"] // 2)}).to(original.device)
            return self.pretraining(narrow, task.retain)
        if self.how == "without augmentation":
            plain = dataclasses.replace(self.pretraining, crop=0, flip=False)
            return retrained_model(original, task, plain)
        return self.pretraining(restart(clone(original)), task.retain, _smoothed)


def _smoothed(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y, label_smoothing=SMOOTHING)


@torch.no_grad()
def _changed(retrained: Classifier, how: str) -> Classifier:
    model = clone(retrained)
    weights = [part.weight for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    sizes = torch.cat([weight.abs().flatten() for weight in weights])
    least = sizes.kthvalue(max(1, int(PRUNED * len(sizes)))).values
    for weight in weights:
        step = weight.abs().amax().clamp_min(1e-12) / STEPS
        weight.copy_(weight * (weight.abs() > least) if how == "pruned" else (weight / step).round() * step)
    return model


@dataclass(frozen=True)
class BadReference(Control):
    """A reference trained for a third of the epochs (`short`), or on the forgotten data, too (`tainted`)."""

    kind: Annotated[Literal["short", "tainted"], Choice("What is wrong with it.")] = "short"
    pretraining: Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        return f"Reference, {self.kind}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        if self.kind == "tainted":
            return self.pretraining(restart(clone(original)), task.train)
        fewer = dataclasses.replace(self.pretraining, epochs=max(1, self.pretraining.epochs // 3))
        return retrained_model(original, task, fewer)


def otherwise(pretraining: Pretraining, *, network: str) -> tuple[RetrainedOtherwise, ...]:
    """All ways of retraining otherwise; only the ResNets have a width to halve."""
    ways: tuple[How, ...] = ("without augmentation", "label-smoothed", "pruned", "quantised")
    narrow: tuple[How, ...] = ("half the width",) if network.startswith("resnet") else ()
    return tuple(RetrainedOtherwise(how, pretraining) for how in (*narrow, *ways))
