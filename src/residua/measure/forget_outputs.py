"""ForgetOutputs: what the model says about the forgotten data, kept for comparisons (JSD, ZRF)."""

from __future__ import annotations

from dataclasses import dataclass

from residua.classifier import Classifier, clone, reinitialise
from residua.errors import InputError
from residua.outputs import log_probabilities
from residua.reading import Reading
from residua.task import ForgetTask
from residua.training import seeded


@dataclass(frozen=True)
class ForgetOutputs:
    """Log-probabilities on the forget set: the model's, and those of its network with random weights.

    `entropy` is the mean of H(p(x)) in nats, `confidence` the mean probability of the true class.
    The random network (drawn from `seed`) is the incompetent teacher that ZRF compares with.
    """

    seed: int = 0

    label = "outputs"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        log_p = log_probabilities(model, task.forget)
        values = {
            "entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean()),
            "confidence": float(log_p.gather(1, task.forget.labels[:, None]).exp().mean()),
        }
        arrays, notes = {"log_probabilities": log_p.numpy()}, {}
        try:
            with seeded(self.seed):
                random = reinitialise(clone(model))
            arrays["random"] = log_probabilities(random, task.forget).numpy()
        except InputError as error:
            notes["ZRF"] = f"no random network: {error}"
        return Reading(values, arrays, notes=notes)
