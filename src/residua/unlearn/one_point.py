"""OPC: contract the outputs of the forget set to one point (Jung et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training import settings
from residua.training.streams import SideBySide
from residua.unlearn._sgd import Sgd


@dataclass(frozen=True)
class OnePoint(Sgd):
    """CE(retain) + weight |logits of the forget sample|, the mean of the norms, one step for each retain batch.

    A logit vector of 0 has the features of forget samples in one hyperplane for each class; contraction to a point of its
    own marks them, too. Written after the abstracts of arXiv 2507.07754 and its submission to ICLR 2026 ("contracts the
    output representations of forget data toward the origin"); its code is a supplement that was not read.
    """

    # Differs from the paper: after the abstract; weight, rate and epochs are ours.
    epochs: settings.Passes = 5
    lr: settings.LearningRate = 1e-3
    retain_batch: settings.RetainBatch = 64
    forget_batch: settings.ForgetBatch = 16
    weight: Annotated[float, settings.Weight("Weight of the contraction.", stronger="more")] = 1.0

    label = "OPC"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        # Both in one pass: the statistics of a batch of one class would normalise that class away.
        def loss(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, _: Tensor) -> Tensor:
            kept, forgotten = model(torch.cat([x, x_f])).float().split([len(x), len(x_f)])
            return F.cross_entropy(kept, y) + self.weight * forgotten.norm(dim=1).mean()

        retain = self.shuffled(model, task.retain, self.retain_batch)
        forget = self.shuffled(model, task.forget, self.forget_batch, keep_last=True)
        return self.descend(model, SideBySide(retain, forget), loss)
