"""CMF: unlearn with a head of class means, so that only features can forget (Gao et al., AISTATS 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training import settings
from residua.training.streams import SideBySide, likeliest, other_labels
from residua.unlearn._features import encoded, linear_head
from residua.unlearn._sgd import Sgd


@dataclass(frozen=True)
class ClassMeans(Sgd):
    """The head is the classifier of the nearest class mean, -|z - mu_c|^2 / (2 temperature), with the means of the very
    batch: no head can learn to be silent while the features stay. Cross-entropy of retain samples under their labels and
    of forget samples under Original's most likely other one. In the end the head holds the means of the retain set; a
    forgotten class has none and is never answered.

    Written after the abstract of arXiv 2604.08271, which names the classifier but not the losses; no code is public.
    """

    # Differs from the paper: after the abstract; it combines its classifier with several methods, ours is relabelling.
    epochs: settings.Passes = 5
    lr: settings.LearningRate = 1e-3
    retain_batch: settings.RetainBatch = 128
    forget_batch: settings.ForgetBatch = 16
    temperature: Annotated[float, settings.Temperature("Divisor of squared distances.")] = 1.0

    label = "CMF"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model, teacher = clone(original), freeze(clone(original))
        head = linear_head(model, self.label)
        allowed = other_labels(task.classes, task.forgotten).to(model.device)

        def loss(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor) -> Tensor:
            with torch.no_grad():
                other = likeliest(teacher(x_f), allowed[y_f])
            z = model.encode(torch.cat([x, x_f])).float()
            present, position = y.unique(return_inverse=True)
            means = _means(z[: len(x)], position, len(present))
            # A batch without a sample of some class has no mean of it, and nothing to teach under its label.
            asked = torch.isin(other, present)
            labels = torch.cat([position, torch.searchsorted(present, other[asked])])
            rows = torch.cat([z[: len(x)], z[len(x) :][asked]])
            return F.cross_entropy(rows @ means.T / self.temperature + self._bias(means), labels)

        retain = self.shuffled(model, task.retain, self.retain_batch)
        forget = self.shuffled(model, task.forget, self.forget_batch, keep_last=True)
        self.descend(model, SideBySide(retain, forget), loss, learning=model.blocks.parameters())
        with torch.no_grad():
            z, y = encoded(model, task.retain).float(), task.retain.labels.to(model.device)
            present, position = y.unique(return_inverse=True)
            means = _means(z, position, len(present))
            head.weight.zero_()
            head.weight[present] = means / self.temperature
            lowest = (z @ means.T / self.temperature + self._bias(means)).min()
            head.bias.copy_(lowest.expand_as(head.bias))
            head.bias[present] = self._bias(means)
        return model

    def _bias(self, means: Tensor) -> Tensor:
        return -means.square().sum(dim=1) / (2 * self.temperature)


def _means(z: Tensor, position: Tensor, classes: int) -> Tensor:
    """The mean row of each class."""
    members = F.one_hot(position, classes).to(z)
    return members.T @ z / members.sum(dim=0)[:, None]
