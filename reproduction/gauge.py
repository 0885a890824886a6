"""The gauge: one function, weights of another size, and the same unlearning settings.

Behind a BatchNorm only the direction of a convolution's weights matters to the function, but a step of SGD turns that
direction by lr x gradient / norm^2. So settings that turn the encoder of an Original with small weights hardly turn that
of one with large weights, even where both are the same function. `rescaled` makes such pairs, and `Gauged` unlearns from
the rescaled Original.

    residua study run reproduction/gauge.py --out runs/gauge

The rule of the gauged arm on CIFAR-10, fixed before any curve of it was read: one factor for the whole study, the largest
of 1, 0.5, 0.25, 0.1, 0.05 at which RL with the paper's settings reaches the paper's UA of 99.9 % without losing more than
one point of TA. It is chosen by RL's UA and TA alone; then every method runs with the paper's settings, and nothing is
searched and nothing is chosen by IDI.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from residua.data import fashion_sample
from residua.data.task import ForgetTask, forget_classes
from residua.measure import Accuracy, InformationCurve, WeightSketch
from residua.models.classifier import Classifier, clone
from residua.study import Row, Study
from residua.study.presets import at_scale, network_for, trained_at
from residua.training.recipes import unlearning_of
from residua.unlearn import Original, Unlearner, find

FACTORS = (1.0, 0.5, 0.25, 0.1, 0.05)
METHODS = ("SCRUB", "CF-10", "l1-sparse", "FT", "RL", "COLA")


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


def gauge_study(task: ForgetTask, scale: Any, seeds: int, name: str) -> Study:
    """Original, two Retrains, and every method at every factor with the paper's settings for CIFAR-10.

    Images are cropped as in Original's training.

    Args:
        task: The data and what is forgotten.
        scale: Whose networks and training of Original are taken.
        seeds: Number of Originals.
        name: The name of the study.
    """

    pretraining = trained_at(scale)

    def methods(task: ForgetTask, network: Any) -> list[Unlearner | Row]:
        retrain = at_scale("Retrain", scale, task)
        rows: list[Unlearner | Row] = [Original(), retrain, Row("Retrain 2", retrain, draw=1)]
        crop = pretraining(task, network).crop
        for label in METHODS:
            method: Any = find(label)
            papers = unlearning_of(label, "full", task.scenario, "cifar10", "resnet18")
            method = dataclasses.replace(method, **papers | {"crop": crop})
            rows += [Gauged(factor, method) for factor in FACTORS]
        return rows

    return Study(
        tasks={task.dataset: task},
        networks={"resnet18": network_for(task, scale)},
        pretraining=pretraining,
        methods=methods,
        measures=(InformationCurve(), Accuracy(), WeightSketch()),
        seeds=range(seeds),
        scale=scale,
        name=name,
    )


study = gauge_study(forget_classes(fashion_sample(), [6]), "tiny", 3, "gauge")
