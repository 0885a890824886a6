"""Boundary Shrink and Boundary Expand: move the decision boundary of the forgotten (Chen et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.classifier import Classifier, clone, freeze
from residua.errors import InputError
from residua.streams import likeliest, other_labels, shuffled
from residua.task import ForgetTask
from residua.training import Loss, check_settings, descend


@dataclass(frozen=True)
class BoundaryShrink:
    """Each forget sample is taught as the class that lies nearest: what Original calls it after one step
    of `step` (in pixels of [0, 1]) along the sign of its gradient,

        y' = argmax_{c != y} Original(x + step sign(grad_x CE(Original(x), y)))_c.
    """

    epochs: int = 10
    lr: float = 1e-5
    batch: int = 64
    step: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "Boundary Shrink"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        teacher = freeze(clone(original))
        allowed = other_labels(task.classes, task.forgotten).to(model.device)
        step = self.step / torch.tensor(task.forget.std, device=model.device).view(1, -1, 1, 1)

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            x = x.requires_grad_(True)
            (slope,) = torch.autograd.grad(F.cross_entropy(teacher(x), y), x)
            x = x.detach()
            with torch.no_grad():
                nearest = likeliest(teacher(x + step * slope.sign()), allowed[y])
            return F.cross_entropy(model(x), nearest)

        _learn(self, model, task, loss)
        return model


@dataclass(frozen=True)
class BoundaryExpand:
    """The forget samples are taught as a class that did not exist, and that class is dropped afterwards."""

    epochs: int = 10
    lr: float = 1e-5
    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4
    flip: bool = True

    label = "Boundary Expand"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        head = model.head
        if not isinstance(head, nn.Linear):
            raise InputError(
                f"Boundary Expand needs a linear head, but this one is {type(head).__name__}; choose another method"
            )
        # One more row of the same kind; a fresh draw is what any new class begins with.
        wide = nn.Linear(head.in_features, head.out_features + 1, bias=head.bias is not None)
        wide = wide.to(head.weight.device, head.weight.dtype)
        extra = head.out_features
        _copy(head, wide, extra)
        model.head = wide

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(model(x), torch.full_like(y, extra))

        _learn(self, model, task, loss)
        _copy(wide, head, extra)
        model.head = head
        return model


def _learn(
    settings: BoundaryShrink | BoundaryExpand, model: Classifier, task: ForgetTask, loss: Loss
) -> None:
    descend(
        model,
        shuffled(task.forget, settings.batch, model.device, settings.crop, settings.flip),
        loss,
        optimizer=torch.optim.SGD(
            model.parameters(), lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        ),
        epochs=settings.epochs,
    )


@torch.no_grad()
def _copy(source: nn.Linear, target: nn.Linear, rows: int) -> None:
    target.weight[:rows] = source.weight[:rows]
    if source.bias is not None and target.bias is not None:
        target.bias[:rows] = source.bias[:rows]
