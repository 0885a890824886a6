"""ForgetOutputs, Perturbed and LogOdds: the model's answers on the forget set as it is and with noise, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure._outputs import log_probabilities
from residua.models.classifier import Classifier, clone, evaluated, reinitialise
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Checked, Seed, Weight


@dataclass(frozen=True)
class ForgetOutputs(Checked):
    """Log-probabilities on the forget set: the model's, and those of its network with random weights.

    `entropy` is the mean of H(p(x)) in nats, `confidence` the mean probability of the true class.
    The random network (drawn from `seed`) is the incompetent teacher that ZRF compares with.
    """

    seed: Annotated[int, Seed("Seed of the random network that ZRF compares with.")] = 0

    label = "outputs"
    revision = 2

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
class Perturbed(Checked):
    """UA on the forget set with Gaussian noise, in units of a pixel's standard deviation.

    A plain model hardly notices such noise. One that was prepared for the very images that an audit uses does
    not recognise them any more.
    """

    noise: Annotated[float, Weight("Standard deviation of the noise, in those of the pixels.", above=0)] = 0.05
    seed: Annotated[int, Seed()] = 0

    label = "perturbed"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        right = 0
        with evaluated(model), torch.inference_mode(), seeded(self.seed):
            for x, y in task.forget.batches(BATCH, device=model.device):
                noise = torch.randn(x.shape).to(x)  # drawn on the CPU: the same on every device
                right += int((model(x + self.noise * noise).argmax(dim=1) == y).sum())
        return Reading({"UA_perturbed": 1 - right / len(task.forget)})


@dataclass(frozen=True)
class LogOdds:
    """Log-odds log p - log(1 - p) of the true class on the forget set and on unseen images of the same classes.

    Where classes were forgotten, `log_odds` is the AUC with which the log-odds of these classes distinguish their test
    images from the others: a model that never saw them has little to order them by. The arrays serve offline attacks
    with the references (`compare.offline_attacks`).
    """

    label = "log-odds"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        classwise = task.scenario == "class"
        own, other = log_probabilities(model, task.forget), log_probabilities(model, task.test)
        unseen, labels = (other, task.test.labels)
        values, notes = {}, {}
        if classwise:
            unseen, labels = log_probabilities(model, task.forget_test), task.forget_test.labels
            forgotten = list(task.forgotten)
            scores = [_odds(each[:, forgotten].logsumexp(dim=1)) for each in (unseen, other)]
            if len(unseen) and len(other):
                above = (scores[0][:, None] > scores[1]).double() + (scores[0][:, None] == scores[1]).double() / 2
                values["log_odds"] = float(above.mean())
            else:
                notes["log_odds"] = "there are no test images of the forgotten classes and of others"
        else:
            notes["log_odds"] = "samples were forgotten, no class"
        known = torch.isin(labels, task.forget.labels)
        seen = {"forget": (own, task.forget.labels), "unseen": (unseen[known], labels[known])}
        arrays = {name: _odds(log_p.gather(1, y[:, None])[:, 0]).float().numpy() for name, (log_p, y) in seen.items()}
        return Reading(values, arrays, notes=notes)


def _odds(log_p: Tensor) -> Tensor:
    """log p - log(1 - p), finite for every p."""
    log_p = log_p.clamp(max=-1e-12)
    return log_p - torch.log(-torch.expm1(log_p))
