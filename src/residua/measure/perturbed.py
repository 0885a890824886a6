"""Perturbed: what the model says about forgotten images that were changed a little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.task import ForgetTask
from residua.explaining import HEAD, NEARER, Explanation
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Seed, Weight, check_settings

EXPLANATIONS = (
    Explanation(
        name="UA_perturbed",
        title="Unlearning accuracy on perturbed images",
        box="black",
        definition="UA on forgotten images with a little noise, which nobody can have prepared a model for.",
        formula="1 - accuracy on the forget set with noise of 5 % of a pixel's deviation",
        range="[0, 1]",
        better=NEARER,
        ideal="The reference's.",
        blind=HEAD,
        source="Ours. Against models that recognise the images of an audit.",
        measures=("perturbed",),
    ),
)
BATCH = 500


@dataclass(frozen=True)
class Perturbed:
    """UA on the forget set with Gaussian noise, in units of a pixel's standard deviation.

    A plain model hardly notices such noise. One that was prepared for the very images that an audit uses does
    not recognise them any more.
    """

    noise: Annotated[float, Weight("Standard deviation of the noise, in those of the pixels.", above=0)] = (
        0.05
    )
    seed: Annotated[int, Seed()] = 0

    label = "perturbed"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        was_training = model.training
        model.eval()
        right = 0
        try:
            with torch.inference_mode(), seeded(self.seed):
                for x, y in task.forget.batches(BATCH, device=model.device):
                    noise = torch.randn(x.shape).to(x)  # drawn on the CPU: the same on every device
                    right += int((model(x + self.noise * noise).argmax(dim=1) == y).sum())
        finally:
            model.train(was_training)
        return Reading({"UA_perturbed": 1 - right / len(task.forget)})
