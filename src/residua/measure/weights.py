"""WeightSketch: a random projection of the weights, from which distances between models can be computed later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.settings import Count, Seed, check_settings


@dataclass(frozen=True)
class WeightSketch:
    """Each block's and the head's weights, folded into `dim` numbers by random signs and places.

    Folding is linear and keeps lengths: |sketch(a) - sketch(b)| is |a - b| with a relative error of about
    1 / sqrt(2 dim), 1 % by default, and exactly 0 where a = b. A part with no more than `dim` weights is
    kept as it is. `weight_norm.PART` is the exact length. BatchNorm statistics do not count.
    """

    dim: Annotated[int, Count("Numbers that a part is folded into.")] = 5000
    seed: Annotated[int, Seed()] = 0

    label = "weights"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        parts: dict[str, nn.Module] = {f"{i}": block for i, block in enumerate(model.blocks, start=1)}
        values, arrays = {}, {"fold": np.array([self.dim, self.seed])}
        for name, part in (parts | {"head": model.head}).items():
            flat = [p.detach().flatten().cpu().double() for p in part.parameters()]
            weights = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)
            if not torch.isfinite(weights).all():
                raise InputError("the model's weights are not finite numbers; it is damaged or has diverged")
            values[f"weight_norm.{name}"] = float(weights.norm())
            arrays[f"part.{name}"] = self._folded(weights).numpy()
            arrays[f"size.{name}"] = np.array(len(weights))
        values["weight_norm"] = float(np.sqrt(sum(value**2 for value in values.values())))
        return Reading(values, arrays)

    def _folded(self, weights: Tensor) -> Tensor:
        if len(weights) <= self.dim:
            return weights
        generator = torch.Generator().manual_seed(self.seed)
        place = torch.randint(self.dim, (len(weights),), generator=generator)
        sign = torch.randint(2, (len(weights),), generator=generator).double() * 2 - 1
        return torch.zeros(self.dim, dtype=torch.float64).index_add_(0, place, sign * weights)
