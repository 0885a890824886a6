"""MIA: would an attacker who sees outputs say that the forgotten data were trained on?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import Tensor

from residua.attack import attack, sides
from residua.classifier import Classifier
from residua.errors import InputError
from residua.outputs import log_probabilities
from residua.reading import Reading
from residua.split import Split
from residua.task import ForgetTask


@dataclass(frozen=True)
class Membership:
    """E-MIA and C-MIA: the share of the forget set that is called member, in [0, 1].

        E-MIA sees the entropy  H(x) = - sum_c p_c log p_c,
        C-MIA the confidence    p_y of the true class.

    The attacker is fitted on retained (members) and test images (others), equally many, none of them
    forgotten. A good method has Retrain's value. Some public code reports the share of NON-members.
    The paper does not name the classifier: `svc` is the one of public code (C = 3, RBF kernel).
    """

    classifier: Literal["logistic", "svc"] = "logistic"
    held_out: float = 0.3
    most: int = 5000
    seed: int = 0

    label = "mia"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        seen = {name: _scalars(model, split) for name, split in list(task.splits.items())[:3]}
        found = [
            attack(name, self._attacker(), chosen, **{side: by[name] for side, by in seen.items()})
            for name in ("E-MIA", "C-MIA")
        ]
        return Reading(
            {name: value for reading in found for name, value in reading.values.items()},
            {name: array for reading in found for name, array in reading.arrays.items()},
            notes={name: why for reading in found for name, why in reading.notes.items()},
        )

    def _attacker(self) -> Any:
        if self.classifier == "logistic":
            return LogisticRegression(C=1e3)
        if self.classifier == "svc":
            return SVC(C=3, kernel="rbf", gamma="auto")
        raise InputError(f"classifier {self.classifier!r} is unknown; choose logistic or svc")


def _scalars(model: Classifier, split: Split) -> dict[str, Tensor]:
    log_p = log_probabilities(model, split)
    entropy = -(log_p.exp() * log_p).sum(dim=1, keepdim=True)
    return {"E-MIA": entropy, "C-MIA": log_p.gather(1, split.labels[:, None]).exp().to(torch.float64)}
