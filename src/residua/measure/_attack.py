"""Membership attacks: distinguish what a model was trained on from what it never saw.

Members are drawn from the retain set and others from the test set, equally many. One part of each
fits the attacker, the rest shows how good it is, and the forget set is what it is asked about.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.readings import Reading

FEWEST = 10  # members, and others, with which an attack makes sense
LOW = {"TPR@1e-2": 0.01, "TPR@1e-3": 0.001}


@dataclass(frozen=True, eq=False)
class Sides:
    """Positions in the retain set (members) and in the test set (others), for fitting and held out."""

    members: Tensor
    others: Tensor
    members_held: Tensor
    others_held: Tensor


def sides(task: ForgetTask, *, held_out: float, most: int | None, seed: int) -> Sides:
    """As many members as others, at most `most` of each, a share `held_out` of them not for fitting.

    The attacker never sees what it is tested on. A task whose splits share examples is refused.
    An image that the data hold twice takes part once, and not at all if it is also in
    the forget set or on the other side.
    """
    if not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out}, expected a share between 0 and 1")
    check_apart(task)
    forget, retain, test, unseen = (
        contents(split) for split in (task.forget, task.retain, task.test, task.forget_test)
    )
    members = _once(retain, without={*forget, *test, *unseen})
    others = _once(test, without={*forget, *retain})
    n = min(len(members), len(others), most or len(members))
    if n < FEWEST:
        raise InputError(
            f"a membership attack needs {FEWEST} members and as many others, but {task.dataset} has "
            f"{len(members)} retained and {len(others)} test images to choose from; use more data"
        )
    generator = torch.Generator().manual_seed(seed)
    chosen = [side[torch.randperm(len(side), generator=generator)[:n]] for side in (members, others)]
    held = min(max(round(n * held_out), 1), n - 1)
    drawn = Sides(chosen[0][held:], chosen[1][held:], chosen[0][:held], chosen[1][:held])
    seen = {retain[i] for i in drawn.members.tolist()} | {test[i] for i in drawn.others.tolist()}
    tested = [retain[i] for i in drawn.members_held.tolist()] + [test[i] for i in drawn.others_held.tolist()]
    refuse_overlap(seen, [*tested, *forget])
    return drawn


def refuse_overlap(fitted: Iterable[bytes], tested: Iterable[bytes]) -> None:
    """An attacker that was fitted on what it is tested on is inconclusive."""
    both = set(fitted) & set(tested)
    if both:
        raise InputError(
            f"the attacker was to be fitted on {len(both)} of the examples that it is tested on; keep them apart"
        )


def check_apart(task: ForgetTask) -> None:
    """Refuse a task in which one example is on two sides."""
    named = list(task.splits.items())
    for i, (name, split) in enumerate(named):
        for other_name, other in named[i + 1 :]:
            shared = torch.isin(split.index, other.index) if split.images is other.images else torch.zeros(0)
            if shared.any():
                raise InputError(
                    f"{int(shared.sum())} examples are in {name} and in {other_name} of {task.dataset}, so an attacker "
                    "would be tested on what it has seen; make the task from splits that share nothing"
                )


def contents(split: Split) -> list[bytes]:
    """A hash of each image of the split."""
    digests = split.images.digests()
    return [digests[i] for i in split.index.tolist()]


def _once(hashes: list[bytes], *, without: set[bytes]) -> Tensor:
    """Positions of the first of each content that is not in `without`."""
    seen = set(without)
    chosen = []
    for i, content in enumerate(hashes):
        if content not in seen:
            seen.add(content)
            chosen.append(i)
    return torch.tensor(chosen, dtype=torch.int64)


def attack(
    name: str, classifier: Any, chosen: Sides, *, retain: Tensor, test: Tensor, forget: Tensor
) -> Reading:
    """Fit `classifier` on what is known of members and others, and ask it about the forget set.

    `retain`, `test`, `forget` are (N, d): what the attacker sees of every example. `NAME` is the share
    of the forget set called member; `NAME.accuracy`, `.AUC` and `.TPR@...` (at that false positive rate)
    are the attacker's own quality on held-out members and others.
    """
    fit = torch.cat([retain[chosen.members], test[chosen.others]]).double()
    held = torch.cat([retain[chosen.members_held], test[chosen.others_held]]).double()
    mean, scale = fit.mean(0), fit.std(0)
    varies = scale > 1e-9 * fit.abs().amax(0).clamp_min(1e-30)
    if not varies.any():
        return Reading(
            {},
            notes={
                name: "what the attacker sees is the same for every example, so no example can be distinguished from another"
            },
        )
    scale[~varies] = 1.0

    def scores(x: Tensor) -> np.ndarray:
        return _scores(classifier, ((x.double() - mean) / scale).clamp(-10, 10).numpy())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its held-out accuracy says how good it is
        classifier.fit(((fit - mean) / scale).clamp(-10, 10).numpy(), _truth(chosen.members, chosen.others))
    of_held, of_forget = scores(held), scores(forget)
    truth = _truth(chosen.members_held, chosen.others_held)
    fpr, tpr, _ = roc_curve(truth, of_held)
    values = {
        name: float((of_forget > 0).mean()),
        f"{name}.accuracy": float(((of_held > 0) == truth).mean()),
        f"{name}.AUC": float(roc_auc_score(truth, of_held)),
    }
    notes = {}
    for word, rate in LOW.items():
        if len(chosen.others_held) * rate < 1:
            notes[f"{name}.{word}"] = (
                f"it needs {round(1 / rate)} held-out images that were not trained on; there are {len(chosen.others_held)}"
            )
        else:
            values[f"{name}.{word}"] = float(tpr[fpr <= rate].max())
    arrays = {
        f"{name}.held": np.array(len(truth)),
        f"{name}.fpr": fpr,
        f"{name}.tpr": tpr,
        f"{name}.forget": of_forget.astype(np.float32),
    }
    return Reading(values, arrays, notes=notes)


def _truth(members: Tensor, others: Tensor) -> np.ndarray:
    return np.repeat([1, 0], [len(members), len(others)])


def _scores(classifier: Any, x: np.ndarray) -> np.ndarray:
    """Above 0: called member."""
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(x))
    odds = classifier.predict_log_proba(x)
    return np.nan_to_num(odds[:, 1] - odds[:, 0], posinf=1e6, neginf=-1e6)
