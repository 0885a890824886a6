"""LogOdds: how sure the model is of the forgotten class, or of each forgotten sample, on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from residua.data.task import ForgetTask
from residua.measure._outputs import log_probabilities
from residua.models.classifier import Classifier
from residua.readings import Reading


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
                above = (scores[0][:, None] > scores[1]).double() + (
                    scores[0][:, None] == scores[1]
                ).double() / 2
                values["log_odds"] = float(above.mean())
            else:
                notes["log_odds"] = "there are no test images of the forgotten classes and of others"
        else:
            notes["log_odds"] = "samples were forgotten, no class"
        known = torch.isin(labels, task.forget.labels)
        arrays = {
            "forget": _true(own, task.forget.labels),
            "unseen": _true(unseen[known], labels[known]),
        }
        return Reading(values, arrays, notes=notes)


def _odds(log_p: Tensor) -> Tensor:
    """log p - log(1 - p), finite for every p."""
    log_p = log_p.clamp(max=-1e-12)
    return log_p - torch.log(-torch.expm1(log_p))


def _true(log_p: Tensor, labels: Tensor) -> np.ndarray:
    return _odds(log_p.gather(1, labels[:, None])[:, 0]).float().numpy()
