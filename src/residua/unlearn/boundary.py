"""Boundary Shrink and Boundary Expand: move the decision boundary of the forgotten (Chen et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, freeze
from residua.training.settings import Batch, Weight, WeightDecay
from residua.training.streams import likeliest, other_labels
from residua.unlearn._sgd import Sgd


@dataclass(frozen=True)
class BoundaryShrink(Sgd):
    """Each forget sample is taught as the nearest class: what Original calls it after one step
    of `step` (in pixels of [0, 1]) along the sign of its gradient,

        y' = argmax_{c != y} Original(clamp(x + step sign(grad_x CE(Original(x), y))))_c,

    with pixels clamped to [0, 1].
    """

    batch: Batch = 64
    step: Annotated[float, Weight("Size of the adversarial step in pixels of [0, 1].")] = 0.1
    weight_decay: WeightDecay = 0.0

    label = "Boundary Shrink"
    revision = 3

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model, teacher = clone(original), freeze(clone(original))
        allowed = other_labels(task.classes, task.forgotten).to(model.device)
        # The split's pixels are normalised, and so are the step and the bounds.
        mean, std = (
            torch.tensor(values, device=model.device).view(1, -1, 1, 1)
            for values in (task.forget.mean, task.forget.std)
        )
        step, black, white = self.step / std, (0 - mean) / std, (1 - mean) / std

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            x = x.requires_grad_(True)
            (slope,) = torch.autograd.grad(F.cross_entropy(teacher(x), y), x)
            x = x.detach()
            # Differs from the reference: a forgotten label is never taught; the public code takes the likeliest of all
            # labels, which is the sample's own where the step was too short. It also rounds pixels to 1/255.
            with torch.no_grad():
                moved = (x + step * slope.sign()).clamp(black, white)
                nearest = likeliest(teacher(moved), allowed[y])
            return F.cross_entropy(model(x), nearest)

        return self.descend(model, self.shuffled(model, task.forget, self.batch, keep_last=True), loss)


@dataclass(frozen=True)
class BoundaryExpand(Sgd):
    """The forget samples are taught as a class that did not exist, and that class is dropped afterwards."""

    batch: Batch = 64
    weight_decay: WeightDecay = 0.0

    label = "Boundary Expand"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        head = clone(original.head)
        if not isinstance(head, nn.Linear):
            raise InputError(
                f"Boundary Expand needs a linear head, but this one is {type(head).__name__}; choose another method"
            )
        model = clone(original)
        # One more row of the same kind; a fresh draw is what any new class begins with.
        wide = nn.Linear(head.in_features, head.out_features + 1, bias=head.bias is not None)
        wide = wide.to(head.weight.device, head.weight.dtype)
        extra = head.out_features
        _copy(head, wide, extra)
        model.head = wide

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), torch.full_like(y, extra))

        self.descend(model, self.shuffled(model, task.forget, self.batch, keep_last=True), loss)
        _copy(wide, head, extra)
        model.head = head
        return model


@torch.no_grad()
def _copy(source: nn.Linear, target: nn.Linear, rows: int) -> None:
    target.weight[:rows] = source.weight[:rows]
    if source.bias is not None and target.bias is not None:
        target.bias[:rows] = source.bias[:rows]
