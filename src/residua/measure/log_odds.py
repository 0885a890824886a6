"""LogOdds: the model's own log-odds of the true class, on the forget set and on test data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.measure._outputs import logits
from residua.models.classifier import Classifier
from residua.readings import Reading


@dataclass(frozen=True)
class LogOdds:
    """log p_y - log(1 - p_y), from logits as z_y - logsumexp of the others, so that no probability rounds to 1.

    `log_odds` is the mean over the forget set, `log_odds.test` over the test set. Each forget sample's is kept: it is
    the margin of KLoM and the score of likelihood-ratio attacks.
    """

    label = "log-odds"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        forget, test = (log_odds(logits(model, split), split) for split in (task.forget, task.test))
        values = {"log_odds": float(forget.mean()), "log_odds.test": float(test.mean())}
        return Reading(values, {"log_odds": forget.float().numpy()})


def log_odds(outputs: Tensor, split: Split) -> Tensor:
    """The log-odds of each sample's label."""
    z, y = outputs.double(), split.labels[:, None]
    return z.gather(1, y)[:, 0] - z.scatter(1, y, -torch.inf).logsumexp(dim=1)
