"""Representation: features of a fixed sample, kept so that two models can be compared (CKA)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.classifier import Classifier
from residua.errors import InputError
from residua.outputs import pooled
from residua.reading import Reading
from residua.task import ForgetTask
from residua.training import seeded


@dataclass(frozen=True)
class Representation:
    """Pooled features of every block on the same `most` forget and `most` retain samples, centred.

    `compare.cka` needs nothing else. `dimension.l` is the effective dimension of the forget samples in
    block l, (sum of variances)^2 / sum of squared variances over principal directions: 1 on a
    line, 0 at a point.
    """

    most: int = 300
    seed: int = 0

    label = "representation"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if self.most < 2:
            raise InputError(f"most is {self.most}, expected at least 2")
        values, arrays = {}, {}
        for side, split in (("forget", task.forget), ("retain", task.retain)):
            with seeded(self.seed):
                some = torch.randperm(len(split))[: self.most].sort().values
            for block, z in pooled(model, split).items():
                centred = z[some].double() - z[some].double().mean(0)
                arrays[f"{side}.{block}"] = centred.float().numpy()
                if side == "forget":
                    values[f"dimension.{block}"] = _dimension(centred, float(z[some].abs().max()))
            arrays[f"{side}.index"] = split.index[some].numpy()
        return Reading(values, arrays)


def _dimension(z: Tensor, size: float) -> float:
    gram = z @ z.T if len(z) < z.shape[1] else z.T @ z
    trace = float(gram.trace())
    # What is left of a constant after its mean is taken off in float32.
    if trace <= 1e-10 * len(z) * max(size, 1e-30) ** 2:
        return 0.0
    return trace**2 / float(gram.square().sum())
