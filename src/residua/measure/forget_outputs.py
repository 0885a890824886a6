"""ForgetOutputs: what the model says about the forgotten data, kept for comparisons (JSD, ZRF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.explaining import HEAD, NEARER, Explanation
from residua.measure._outputs import log_probabilities
from residua.models.classifier import Classifier, clone, reinitialise
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Seed, check_settings

EXPLANATIONS = (
    Explanation(
        name="entropy",
        title="Entropy on the forget set",
        box="black",
        unit="nats",
        definition="How undecided the model is about forgotten data, in nats.",
        formula="mean over x of - sum_c p_c log p_c",
        range="[0, ln classes]",
        better=NEARER,
        ideal="The reference's.",
        blind=HEAD,
        source="Ours.",
    ),
    Explanation(
        name="confidence",
        title="Confidence on the forget set",
        box="black",
        definition="The mean probability of the true class of forgotten data.",
        formula="mean over (x, y) of p_y(x)",
        range="[0, 1]",
        better=NEARER,
        ideal="The reference's: about 0 when a class is forgotten.",
        blind=HEAD,
        source="Ours.",
    ),
)


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
