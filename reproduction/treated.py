"""Models after a treatment that leaves their knowledge in place: a metric that says otherwise is not robust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.loop import SGD, descend
from residua.unlearn import Unlearner


@dataclass(frozen=True)
class Treated:
    """A model with its matrices of weights rounded to 4 bits, or after one epoch of relearning all of D.

    The model is that of the row beside this one, or `method`'s, for models that no store can rebuild.
    """

    by: Literal["4 bits", "relearned"]
    method: Unlearner | None = None

    role = "control"
    guarded = False
    savable = False

    @property
    def label(self) -> str:
        return self.by

    def __call__(self, original: Classifier, task: ForgetTask, **given: Any) -> Classifier:
        model = clone(given["retrained"]) if self.method is None else self.method(original, task, **given)
        if self.by == "relearned":
            # Rate, momentum and batches of the measure of relearning.
            learning = [p for p in model.parameters() if p.requires_grad]
            batches = task.train.batches(32, shuffle=True, drop_last=True, device=model.device)
            descend(model, batches, optimizer=SGD(learning, lr=1e-3, momentum=0.9), epochs=1)
        else:
            with torch.no_grad():
                for weight in (p for p in model.parameters() if p.ndim > 1):
                    step = weight.abs().amax().clamp_min(1e-12) / 7
                    weight.copy_((weight / step).round() * step)
        return model.eval()
