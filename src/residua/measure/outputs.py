"""ForgetOutputs and Perturbed: the model's answers on the forget set, on the images as they are and with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure._outputs import log_probabilities
from residua.models.classifier import Classifier, clone, reinitialise
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Seed, Weight, check_settings


@dataclass(frozen=True)
class ForgetOutputs:
    """Log-probabilities on the forget set: the model's, and those of its network with random weights.

    `entropy` is the mean of H(p(x)) in nats, `confidence` the mean probability of the true class.
    The random network (drawn from `seed`) is the incompetent teacher that ZRF compares with.
    """

    seed: Annotated[int, Seed("Seed of the random network that ZRF compares with.")] = 0

    label = "outputs"
    revision = 2

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        log_p = log_probabilities(model, task.forget)
        values = {
            "entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean()),
            "confidence": float(log_p.gather(1, task.forget.labels[:, None]).exp().mean()),
        }
        # float32: networks compute in it, and records of many models are kept.
        arrays, notes = {"log_probabilities": log_p.float().numpy()}, {}
        try:
            with seeded(self.seed):
                random = reinitialise(clone(model))
            arrays["random"] = log_probabilities(random, task.forget).float().numpy()
        except InputError as error:
            notes["ZRF"] = f"no random network: {error}"
        return Reading(values, arrays, notes=notes)


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
