"""The gauge: one function, weights of another size, and the same unlearning settings.

Behind a BatchNorm only the direction of a convolution's weights matters to the function, but a step of SGD turns that
direction by lr x gradient / norm^2. So settings that turn the encoder of an Original with small weights hardly turn that
of one with large weights, even where both are the same function. `rescaled` makes such pairs, and `Gauged` unlearns from
the rescaled Original.

    python -m reproduction run gauge --out runs/gauge
    python -m reproduction gauge --records runs/gauge/records --out gauge.svg

The rule of the gauged arm on CIFAR-10, fixed before any curve of it was read: one factor for the whole study, the largest
of 1, 0.5, 0.25, 0.1, 0.05 at which RL with the paper's settings reaches the paper's UA of 99.9 % without losing more than
one point of TA. It is chosen by RL's UA and TA alone; then every method runs with the paper's settings, and nothing is
searched and nothing is chosen by IDI.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.study.definition import Row
from residua.unlearn import Unlearner, traits


@dataclass(frozen=True)
class Gauged:
    """`method`, started from Original with every convolution in front of a BatchNorm times `factor`.

    The model is scaled back afterwards, which does not change its function, so that it can be saved and compared.
    """

    factor: float
    method: Unlearner

    @property
    def label(self) -> str:
        return f"{self.method.label} x {self.factor:g}"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        unlearned = self.method(rescaled(original, self.factor), task)
        return rescaled(unlearned, 1 / self.factor)


@torch.no_grad()
def rescaled(model: Classifier, factor: float) -> Classifier:
    """A copy that computes the same function in train and eval mode, its normalised convolutions times `factor`.

    The running mean is multiplied by the factor, the running variance and the norm's epsilon by its square.

    Args:
        model: A classifier whose convolutions are each followed by a BatchNorm, as in a ResNet.
        factor: What the weights are multiplied by.
    """
    model = clone(model)
    for convolution, norm in normalised(model):
        convolution.weight *= factor
        for statistic, power in ((norm.running_mean, 1), (norm.running_var, 2)):
            if statistic is not None:
                statistic *= factor**power
        norm.eps *= factor**2
    return model


def normalised(model: nn.Module) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Every convolution with the BatchNorm that is defined right after it and has as many channels."""
    parts = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.BatchNorm2d)]
    for part, behind in itertools.pairwise(parts):
        if isinstance(part, nn.Conv2d) and isinstance(behind, nn.BatchNorm2d) and part.bias is None:
            yield part, behind


def at_factors(rows: Sequence[Unlearner | Row], arm: str, factors: Sequence[float]) -> list[Unlearner | Row]:
    """Every row that trains Original's encoder, once for each factor; the others stay as they are.

    Args:
        rows: Methods of a study.
        arm: `gauge` multiplies Original's weights, `dose` the learning rate, COLA's that of the collapse.
        factors: The factors. A single one leaves the rows their names.
    """
    made: list[Unlearner | Row] = []
    for given in rows:
        row = given if isinstance(given, Row) else Row(given.label, given)
        own = traits(row.method)
        if own.from_scratch or own.role == "original" or own.keeps_encoder:
            made.append(given)
            continue
        for factor in factors:
            method = Gauged(factor, row.method) if arm == "gauge" else _stronger(row.method, factor)
            label = row.label if len(factors) == 1 else f"{row.label} x {factor:g}"
            made.append(dataclasses.replace(row, label=label, method=method))
    return made


def _stronger(method: Any, factor: float) -> Any:
    field = "collapse_lr" if hasattr(method, "collapse_lr") else "lr"
    return dataclasses.replace(method, **{field: factor * getattr(method, field)})
