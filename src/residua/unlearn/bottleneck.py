"""Representation Unlearning: a map behind the encoder that compresses the forget set (Almudévar and Ortega 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training import settings
from residua.training.keeping import keeper
from residua.training.loop import Adam, BatchSource, descend
from residua.training.streams import SideBySide
from residua.unlearn._features import InHead, Rows, encoded, folded, linear_head


@dataclass(frozen=True)
class Bottleneck(InHead):
    """Original's weights stay. t = A z + c + sigma(z) * noise is learned behind the encoder by

        CE(head(t), y) on retain  +  beta KL( N(A z + c, sigma(z)^2) || N(0, 1) ) on forget, the mean over coordinates,

    the variational form of an information bottleneck. Read without noise, A and c become part of the head; so every block
    is Original's and IDI is exactly 1, as it would be with any other map behind the encoder.

    Written after the abstract of arXiv 2601.21564; no code is public.
    """

    # Differs from the paper: after the abstract; an affine map, so that the network keeps its shape, and our weights.
    epochs: settings.Passes = 5
    lr: settings.LearningRate = 1e-3
    batch: settings.Batch = 128
    beta: Annotated[float, settings.Weight("Weight of the compression.", stronger="more")] = 1.0
    schedule: settings.Scheduled = "constant"

    label = "Representation Unlearning"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        mapped = _Mapped(linear_head(model, self.label))

        def loss(mapped: _Mapped, z: Tensor, y: Tensor, z_f: Tensor, _: Tensor) -> Tensor:
            mean, log_variance = mapped.mean(z_f), mapped.log_variance(z_f)
            compressed = (mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
            return F.cross_entropy(mapped(z), y) + self.beta * compressed

        def rows(split: Split) -> BatchSource:
            z = encoded(model, split)
            return Rows(z, split.labels.to(z.device), self.batch)

        learning = [p for p in mapped.parameters() if p.requires_grad]
        descend(
            mapped,
            SideBySide(rows(task.retain), rows(task.forget)),
            loss,
            optimizer=Adam(learning, lr=self.lr),
            epochs=self.epochs,
            schedule=self.schedule,
            precision="float32",
            keep=keeper(),
        )
        return folded(model, self.label, mapped.mean.weight.detach(), mapped.mean.bias.detach())


class _Mapped(nn.Module):
    """The head behind the map, which begins as the identity with little noise."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        width = head.in_features
        self.head = freeze(clone(head))
        self.mean, self.log_variance = (
            nn.Linear(width, width).to(head.weight.device, head.weight.dtype) for _ in range(2)
        )
        with torch.no_grad():
            self.mean.weight.copy_(torch.eye(width))
            self.mean.bias.zero_()
            self.log_variance.weight.zero_()
            self.log_variance.bias.fill_(-5.0)

    def forward(self, z: Tensor) -> Tensor:
        deviation = (self.log_variance(z) / 2).exp()
        return self.head(self.mean(z) + deviation * torch.randn_like(z))
