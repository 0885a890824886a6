"""CoUn: contrastive and supervised learning on the retain set alone (Khalil et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training import settings
from residua.training.losses import supervised_contrastive
from residua.training.streams import Contrasted
from residua.unlearn._sgd import Sgd


@dataclass(frozen=True)
class Contrastive(Sgd):
    """CE(retain) + weight InfoNCE(retain): two crops of a sample are drawn together, all other samples pushed away,
    whatever their labels; so features follow likeness, and those of forget samples, which are never shown, with them.

    Written after the abstract of arXiv 2509.16391; no code was found.
    """

    # Differs from the paper: after the abstract; features without a projector, temperature, weight and rate are ours.
    epochs: settings.Passes = 10
    lr: settings.LearningRate = 1e-2
    batch: settings.Batch = 128
    temperature: Annotated[float, settings.Temperature("Temperature of the contrastive loss.")] = 0.1
    weight: Annotated[float, settings.Weight("Weight of the contrastive loss.", stronger="more")] = 1.0

    label = "CoUn"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)

        def loss(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
            z = model.encode(x)
            sample = torch.arange(len(x) // 2, device=x.device).repeat(2)  # the second views follow the first
            return F.cross_entropy(model.head(z), y) + self.weight * supervised_contrastive(z, sample, self.temperature)

        two_views = Contrasted(task.retain, self.batch, model.device, self.crop, self.flip, views=2)
        return self.descend(model, two_views, loss)
