"""MIA: would an attacker who sees outputs say that the forgotten data were trained on?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.explaining import ATTACKER_PARTS, HEAD, NEARER, QUALITY, Explanation
from residua.measure._attack import attack, sides
from residua.measure._outputs import log_probabilities
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.settings import Choice, Count, Seed, Share, check_settings

EXPLANATIONS = (
    Explanation(
        name="E-MIA",
        title="Membership inference from entropy",
        aliases=("mia",),
        box="black",
        definition=(
            "The share of the forget set that an attacker who sees the entropy of outputs calls member."
        ),
        formula=(
            "1 - TN / |forget set|; H(x) = - sum_c p_c log p_c; fitted on retain against test, equally many"
        ),
        range="[0, 1]",
        better=NEARER,
        better_of=QUALITY,
        ideal="Retrain's.",
        blind=HEAD
        + " The attacker also judges one scalar: on a model that does not overfit it guesses. "
        + ATTACKER_PARTS,
        elsewhere="OPTML's code (SalUn, l1-sparse) reports the share called NON-member: 1 minus this.",
        source=(
            "The paper, appendix on metrics (headline variant); Shokri et al. 2017. The classifier "
            "is ours: the paper names none."
        ),
        parts="attacker",
    ),
    Explanation(
        name="C-MIA",
        title="Membership inference from confidence",
        box="black",
        definition=(
            "The share of the forget set that an attacker who sees the true class's probability calls member."
        ),
        formula="as E-MIA, with p_y instead of H",
        range="[0, 1]",
        better=NEARER,
        better_of=QUALITY,
        ideal="Retrain's: about 0 when a class is forgotten.",
        blind=HEAD + " When a class is forgotten it repeats UA. " + ATTACKER_PARTS,
        elsewhere="As E-MIA.",
        source="The paper, appendix on metrics; Fan et al. 2023 (SalUn).",
        parts="attacker",
    ),
)


@dataclass(frozen=True)
class Membership:
    """E-MIA and C-MIA: the share of the forget set that is called member, in [0, 1].

        E-MIA sees the entropy  H(x) = - sum_c p_c log p_c,
        C-MIA the confidence    p_y of the true class.

    The attacker is fitted on retained (members) and test images (others), equally many, none of them
    forgotten. A good method has Retrain's value. Some public code reports the share of NON-members.
    The paper does not name the classifier: `svc` is the one of public code (C = 3, RBF kernel).
    """

    classifier: Annotated[
        Literal["logistic", "svc"], Choice("The attacker: logistic regression, or the SVC of public code.")
    ] = "logistic"
    held_out: Annotated[float, Share("Share of members and others that judges the attacker.", below=1)] = 0.3
    most: Annotated[int, Count("Most members, and most others.")] = 5000
    seed: Annotated[int, Seed()] = 0

    label = "mia"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        seen = {name: _scalars(model, split) for name, split in list(task.splits.items())[:3]}
        attacks = [
            attack(name, self._attacker(), chosen, **{side: by[name] for side, by in seen.items()})
            for name in ("E-MIA", "C-MIA")
        ]
        return Reading(
            {name: value for reading in attacks for name, value in reading.values.items()},
            {name: array for reading in attacks for name, array in reading.arrays.items()},
            notes={name: why for reading in attacks for name, why in reading.notes.items()},
        )

    def _attacker(self) -> Any:
        # Differs from the reference: the default attacker is a logistic regression and its value the share called member;
        # public code fits an SVC (`classifier="svc"`) and reports the share called non-member.
        if self.classifier == "logistic":
            return LogisticRegression(C=1e3)
        return SVC(C=3, kernel="rbf", gamma="auto")


def _scalars(model: Classifier, split: Split) -> dict[str, Tensor]:
    log_p = log_probabilities(model, split)
    entropy = -(log_p.exp() * log_p).sum(dim=1, keepdim=True)
    return {"E-MIA": entropy, "C-MIA": log_p.gather(1, split.labels[:, None]).exp().to(torch.float64)}
