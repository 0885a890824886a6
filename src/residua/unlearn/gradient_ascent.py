"""GA and NegGrad: gradient ascent on the forget set, with the retain set and without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training import settings
from residua.training.losses import descent_and_ascent
from residua.training.streams import SideBySide
from residua.unlearn._sgd import Sgd, keep_statistics


@dataclass(frozen=True)
class GradientAscent(Sgd):
    """Up the loss of the forget set, down that of the retain set (NegGrad+ of Kurmanji et al. 2023).

    alpha CE(retain) - (1 - alpha) CE(forget), one step for each retain batch. The forget batches are shuffled again
    each time they run out. The paper leaves alpha open; the
    public code has 0.95 and 0.9999. Neither momentum nor weight decay, as in every public NegGrad+: momentum 0.9 would
    make the steps ten times as long.
    """

    lr: settings.LearningRate = 2e-3
    retain_batch: settings.RetainBatch = 64
    forget_batch: settings.ForgetBatch = 16
    alpha: Annotated[float, settings.Weight("Weight of the retain loss; the forget loss has 1 - alpha.", most=1)] = 0.95
    momentum: settings.Momentum = 0.0
    weight_decay: settings.WeightDecay = 0.0

    label = "GA"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        retain = self.shuffled(model, task.retain, self.retain_batch)
        forget = self.shuffled(model, task.forget, self.forget_batch, keep_last=True)
        # Differs from the reference: forget batches are shuffled again whenever they run out; a cycle over the loader,
        # as in public code, would repeat its first pass.
        return self.descend(model, SideBySide(retain, forget), partial(descent_and_ascent, alpha=self.alpha))


@dataclass(frozen=True)
class NegativeGradient(Sgd):
    """Up the loss of the forget set, and nothing else (Golatkar et al. 2020).

    -CE(forget). It needs no retain data, and nothing holds the rest of the model in place.

    The paper's GA is NegGrad+, which descends on the retain set as well (`GradientAscent`). Momentum and weight decay are
    those of OPTML-Group/Unlearn-Saliency, which calls this method GA. Batches of one class normalise that class away, unless
    every BatchNorm keeps Original's statistics.
    """

    epochs: Annotated[int, settings.Epochs("Passes over the forget set.", stronger="more")] = 5
    lr: settings.LearningRate = 1e-4
    batch: settings.Batch = 64
    keep_statistics: settings.KeepStatistics = False

    label = "NegGrad"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        def ascent(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            if self.keep_statistics:
                keep_statistics(model)
            return -F.cross_entropy(model(x), y)

        return self.descend(model, self.shuffled(model, task.forget, self.batch, keep_last=True), ascent)
