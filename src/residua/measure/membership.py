"""Membership, WhiteBoxMembership and LogOdds: attacks that distinguish members, the training data, from other data.

Members are drawn from the retain set and non-members from the test set, equally many. One part of each
fits the attacker, the rest shows how good it is, and the forget set is what it is asked about. Attacks by log-odds are
fitted to other models (`compare.offline_attacks`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.errors import InputError, first_line
from residua.measure._outputs import log_probabilities, logits, pooled
from residua.models.classifier import Classifier, clone
from residua.readings import Reading
from residua.training.settings import Checked, Choice, Count, Seed, Share

CHUNK = 256  # gradients that are computed at once
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
    """Equally many members and non-members, at most `most` of each; a fraction `held_out` of them is not for fitting.

    The attacker never sees what it is tested on. A task whose splits share examples is refused.
    An image that the data hold twice takes part once, and not at all if it is also in
    the forget set or on the other side.
    """
    if not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out}, expected a share between 0 and 1")
    named = list(task.splits.items())
    for i, (name, split) in enumerate(named):
        for other_name, other in named[i + 1 :]:
            shared = torch.isin(split.index, other.index) if split.images is other.images else torch.zeros(0)
            if shared.any():
                raise InputError(
                    f"{int(shared.sum())} examples are in {name} and in {other_name} of {task.dataset}, so an attacker "
                    "would be tested on what it has seen; make the task from splits that share nothing"
                )
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
    return Sides(chosen[0][held:], chosen[1][held:], chosen[0][:held], chosen[1][:held])


def contents(split: Split) -> list[bytes]:
    """A hash of each image of the split."""
    digests = split.images.digests
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
    name: str, classifier: Any, chosen: Sides, *, retain: Tensor, test: Tensor, forget: Tensor, scaled: bool = True
) -> Reading:
    """Fit `classifier` on what is known of members and others, and ask it about the forget set.

    `retain`, `test`, `forget` are (N, d): the attacker's inputs for every example. `NAME` is the fraction
    of the forget set called member; `NAME.accuracy`, `.AUC` and `.TPR@...` (at that false positive rate)
    are the attacker's own quality on held-out members and others. Unless `scaled` is false, inputs are standardised
    by those of the fit.
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
    shown = ((x.double() - mean) / scale if scaled else x.double() for x in (fit, held, forget))
    fitted, *asked = (np.asarray(x.clamp(-10, 10) if scaled else x) for x in shown)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its held-out accuracy says how good it is
        classifier.fit(fitted, np.repeat([1, 0], [len(chosen.members), len(chosen.others)]))
    # Above 0: called member.
    if hasattr(classifier, "decision_function"):
        of_held, of_forget = (np.asarray(classifier.decision_function(x)) for x in asked)
    else:
        odds = (classifier.predict_log_proba(x) for x in asked)
        of_held, of_forget = (np.nan_to_num(each[:, 1] - each[:, 0], posinf=1e6, neginf=-1e6) for each in odds)
    truth = np.repeat([1, 0], [len(chosen.members_held), len(chosen.others_held)])
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


def _merged(readings: Iterable[Reading]) -> Reading:
    """One reading of several attacks, whose names differ."""
    values: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    notes: dict[str, str] = {}
    for reading in readings:
        values |= reading.values
        arrays |= reading.arrays
        notes |= reading.notes
    return Reading(values, arrays, notes=notes)


@dataclass(frozen=True)
class Membership(Checked):
    """E-MIA and C-MIA: the fraction of the forget set that an attacker calls member, in [0, 1].

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
    revision = 2

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        seen: dict[str, dict[str, Tensor]] = {"E-MIA": {}, "C-MIA": {}}
        for side, split in (("retain", task.retain), ("test", task.test), ("forget", task.forget)):
            log_p = log_probabilities(model, split)
            seen["E-MIA"][side] = -(log_p.exp() * log_p).sum(dim=1, keepdim=True)
            seen["C-MIA"][side] = log_p.gather(1, split.labels[:, None]).exp()
        # The kernel of the SVC has a width of 1 in the units of its input: standardised confidences, which lie close together,
        # are another attack.
        # Differs from the reference: the default attacker is a logistic regression and its value the share called member;
        # public code (OPTML-Group/Unlearn-Saliency, SVC_MIA.py) fits an SVC (`classifier="svc"`) to the numbers as they are and
        # reports the share called non-member. Its attacker is fitted on all test images and as many of the first retained
        # ones, without holding any out, and whom it is fitted on moves the share.
        plain = self.classifier == "logistic"
        attacker = LogisticRegression(C=1e3) if plain else SVC(C=3, kernel="rbf", gamma="auto")
        return _merged(attack(name, attacker, chosen, **by_side, scaled=plain) for name, by_side in seen.items())


@dataclass(frozen=True)
class WhiteBoxMembership(Checked):
    """The fraction of the forget set that an attack network calls member, in [0, 1].

    `A-MIA` sees activations: the pooled features of the last `last` blocks and the logits, sorted and as
    they are. `G-MIA` sees the gradient of the cross-entropy with the true label with respect to the head's
    weights: a random projection of it to `dim` numbers and the logarithm of its length. Members and
    others are chosen as for MIA. `A-MIA.retain` and `G-MIA.retain` are the other reading of the paper's table, in
    which Retrain has 95 %: how often a second attacker, fitted on forgotten and retained images, names the side of
    such an image that it has not seen; 0.5 cannot tell them. The paper does not say which layers; on a random network
    the value means nothing, so look at the attacker's own held-out accuracy first.
    """

    last: Annotated[int, Count("How many of the last blocks are seen.")] = 2
    dim: Annotated[int, Count("Numbers that a gradient is projected to.")] = 128
    hidden: Annotated[int, Count("Width of the attack network.")] = 64
    held_out: Annotated[float, Share("Share of members and others that judges the attacker.", below=1)] = 0.3
    most: Annotated[int, Count("Most members, and most others.")] = 2000
    seed: Annotated[int, Seed()] = 0

    label = "white-box-mia"
    revision = 2

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        parts = {"retain": task.retain, "test": task.test, "forget": task.forget}
        wanted = {"retain": _used(chosen, "members"), "test": _used(chosen, "others")}
        readings = []
        looks = {"A-MIA": self._activations, "G-MIA": self._gradients}
        if not list(model.head.parameters()):
            readings.append(Reading({}, notes={"G-MIA": "the head has no weights, so there are no gradients"}))
            looks.pop("G-MIA")
        for name, look in looks.items():
            seen = {side: look(model, split, wanted.get(side)) for side, split in parts.items()}
            readings.append(attack(name, self._network(), chosen, **seen, scaled=True))
            readings.append(self._apart(name, seen, wanted["retain"], task))
        return _merged(readings)

    def _network(self) -> MLPClassifier:
        return MLPClassifier((self.hidden,), alpha=1e-2, max_iter=60, random_state=self.seed % 2**32, tol=1e-3)

    def _apart(self, name: str, seen: dict[str, Tensor], retain: Tensor, task: ForgetTask) -> Reading:
        """Accuracy of distinguishing forgotten from retained images, equally many, on some that were held out."""
        # Differs from the paper: it does not say whom its white-box attackers distinguish; both readings are taken.
        forget = _once(contents(task.forget), without=set())
        n = min(len(retain), len(forget))
        if n < FEWEST:
            why = f"it needs {FEWEST} forgotten and as many retained images; there are {n}"
            return Reading({}, notes={f"{name}.retain": why})
        generator = torch.Generator().manual_seed(self.seed)
        ours, theirs = (each[torch.randperm(len(each), generator=generator)[:n]] for each in (retain, forget))
        held = min(max(round(n * self.held_out), 1), n - 1)
        pair = Sides(ours[held:], theirs[held:], ours[:held], theirs[:held])
        read = attack(name, self._network(), pair, retain=seen["retain"], test=seen["forget"], forget=seen["forget"])
        if name not in read.values:
            return Reading({}, notes={f"{name}.retain": read.notes[name]})
        return Reading({f"{name}.retain": read.values[f"{name}.accuracy"]})

    def _activations(self, model: Classifier, split: Split, wanted: Tensor | None) -> Tensor:
        blocks = range(max(1, model.depth - self.last + 1), model.depth + 1)
        outputs = logits(model, split)
        return torch.cat([*pooled(model, split, list(blocks)).values(), outputs, outputs.sort(dim=1).values], dim=1)

    def _gradients(self, model: Classifier, split: Split, wanted: Tensor | None) -> Tensor:
        """Projected gradients of the head for the `wanted` rows; the others stay zero."""
        z = pooled(model, split, [model.depth])[model.depth]
        # Differs from the reference: gradients of the head only, randomly projected; Nasr et al. attack with networks of
        # their own for the gradients of several layers.
        head = clone(model.head).cpu()
        names = [name for name, _ in head.named_parameters()]
        weights = {name: p.detach() for name, p in head.named_parameters()}
        numbers = sum(p.numel() for p in weights.values())
        generator = torch.Generator().manual_seed(self.seed)
        projection = torch.randn(numbers, self.dim, generator=generator) / self.dim**0.5

        def loss(weights: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
            outputs = torch.func.functional_call(head, weights, (z[None],))
            return torch.nn.functional.cross_entropy(outputs, y[None])

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        rows = torch.zeros(len(z), self.dim + 1)
        for part in (torch.arange(len(z)) if wanted is None else wanted).split(CHUNK):
            try:
                gradients = each(weights, z[part], split.labels[part])
            except RuntimeError as error:  # a head that decides by its values, such as one that routes images
                raise InputError(
                    f"the head's gradients cannot be taken image by image ({first_line(error)})"
                ) from error
            flat = torch.cat([gradients[name].flatten(1) for name in names], dim=1)
            length = flat.norm(dim=1, keepdim=True)
            rows[part] = torch.cat([flat @ projection, length.clamp_min(1e-12).log()], dim=1)
        return rows


def _used(chosen: Sides, side: str) -> Tensor:
    return torch.cat([getattr(chosen, side), getattr(chosen, f"{side}_held")])


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
