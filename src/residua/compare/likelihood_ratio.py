"""Attacks over many models: U-LiRA, which asks for what was unlearned among what was never seen, and KLoM."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from residua.compare.metric_values import auc_interval
from residua.errors import InputError
from residua.readings import Reading

Variance = Literal["example", "shared"]
LOW = {"TPR@1e-2": 0.01, "TPR@1e-3": 0.001}
# Lower bounds of a Gaussian's variance: this fraction of all shadow scores' variance, and this number.
FLOOR, LEAST = 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class Observations:
    """One row for each unlearned model and example that it was asked about; four arrays of one length.

    `model` is the number of the shadow model that was unlearned, `example` that of the example, `trained`
    whether the model was trained on it before it was unlearned, `score` what was seen afterwards.
    """

    model: np.ndarray
    example: np.ndarray
    trained: np.ndarray
    score: np.ndarray

    def __post_init__(self) -> None:
        shapes = {np.shape(getattr(self, field.name)) for field in fields(self)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise InputError(
                f"model, example, trained and score have the shapes {sorted(shapes)}; give four lists of one length"
            )
        if not np.isfinite(self.score).all():
            raise InputError("some scores are NaN or infinite; leave damaged models out")

    def __len__(self) -> int:
        return len(self.score)

    def of(self, models: Collection[int]) -> Observations:
        """The rows of these models."""
        return self.where(np.isin(self.model, list(models)))

    def where(self, rows: np.ndarray) -> Observations:
        return Observations(*(getattr(self, field.name)[rows] for field in fields(self)))

    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def observations(arrays: Mapping[str, np.ndarray]) -> Observations:
    """The observations that a record keeps."""
    return Observations(*(arrays[field.name] for field in fields(Observations)))


def likelihood_ratios(
    shadow: Observations, target: Observations, variance: Variance = "example"
) -> tuple[np.ndarray, np.ndarray]:
    """log N(s; in) - log N(s; out) of every target row, and a mask of the rows that have one.

    Each example has two Gaussians, of its scores under shadow models that were trained on it (in) and that
    were not (out). Rows of examples with too few scores have no ratio.

    Args:
        shadow: Observations of the shadow models.
        target: Observations of other models, which are attacked.
        variance: `example`: each Gaussian has its own, which needs two scores a side; `shared`: one for all examples
            of a side, which is better where shadow models are few.
    """
    if variance not in ("example", "shared"):
        raise InputError(f"variance {variance!r} is unknown; choose example or shared")
    both = np.intersect1d(shadow.model, target.model)
    if len(both):
        raise InputError(
            f"model {both[0]} is a shadow model and a target; an attacker must not see what it is tested on, "
            "so keep them apart"
        )
    if not len(shadow) or not len(target):
        return np.zeros(len(target)), np.zeros(len(target), bool)
    examples = int(max(shadow.example.max(), target.example.max())) + 1
    least = max(FLOOR * float(np.var(shadow.score)), LEAST)
    known = np.ones(len(target), bool)
    logs = []
    for side in (True, False):
        # Number, mean and sum of squared deviations of each example's shadow scores on this side.
        rows = shadow.where(shadow.trained == side)
        score = rows.score.astype(np.float64)
        n = np.bincount(rows.example, minlength=examples)
        mean = np.bincount(rows.example, score, examples) / np.maximum(n, 1)
        squares = np.bincount(rows.example, (score - mean[rows.example]) ** 2, examples)
        if variance == "example":
            spread = squares / np.maximum(n - 1, 1)
        else:
            spread = np.full(examples, squares.sum() / max(int((n - 1).clip(0).sum()), 1))
        # Log-density of each target score under its example's Gaussian, up to a constant.
        spread = np.maximum(spread, least)[target.example]
        distance = target.score.astype(np.float64) - mean[target.example]
        logs.append(-0.5 * (np.log(spread) + distance**2 / spread))
        known &= n[target.example] >= (2 if variance == "example" else 1)
    return logs[0] - logs[1], known


def ulira(
    observed: Observations, sides: tuple[Collection[int], Collection[int]], variance: Variance = "example"
) -> Reading:
    """The attack's AUC (`U-LiRA`), accuracy and TPR at low FPR; 0.5, 0.5 and the FPR are the ideal.

    The models of each side are in turn shadows and targets, never both at once. A row is called trained
    where its ratio is above 0; `U-LiRA.bare` is the AUC of the score without any shadow model, which the attack has to beat; `.low`
    and `.high` are 95 % intervals. Accuracy is the mean of both sides' accuracies.

    Args:
        observed: Scores of unlearned models, for examples that were and were not trained on.
        sides: The numbers of the models of either side.
        variance: As for `likelihood_ratios`.
    """
    attacks = [
        (observed.of(targets), *likelihood_ratios(observed.of(shadows), observed.of(targets), variance))
        for shadows, targets in (sides, sides[::-1])
    ]
    ratio = np.concatenate([ratios[known] for _, ratios, known in attacks])
    truth = np.concatenate([target.trained[known] for target, _, known in attacks]).astype(bool)
    left_out = sum(int((~known).sum()) for _, _, known in attacks)
    why = _why_not(observed, truth)
    if why:
        return Reading({}, notes={"U-LiRA": why})
    from sklearn.metrics import roc_auc_score, roc_curve  # takes a second to import

    fpr, tpr, _ = roc_curve(truth, ratio)
    right = (np.sign(ratio) * np.where(truth, 1, -1) + 1) / 2  # a ratio of exactly 0 is half right
    score = np.concatenate([target.score[known] for target, _, known in attacks])
    auc, bare = float(roc_auc_score(truth, ratio)), float(roc_auc_score(truth, score))
    sizes = int(truth.sum()), int((~truth).sum())
    values = {
        "U-LiRA": auc,
        "U-LiRA.bare": bare,
        "U-LiRA.accuracy": float((right[truth].mean() + right[~truth].mean()) / 2),
    }
    for name, value in (("U-LiRA", auc), ("U-LiRA.bare", bare)):
        values[f"{name}.low"], values[f"{name}.high"] = auc_interval(value, *sizes)
    notes = {}
    for word, rate in LOW.items():
        if (~truth).sum() * rate < 1:
            notes[f"U-LiRA.{word}"] = (
                f"it needs {round(1 / rate)} scores of examples that were not trained on; there are {(~truth).sum()}"
            )
        else:
            values[f"U-LiRA.{word}"] = float(tpr[fpr <= rate].max())
    if left_out:
        notes["U-LiRA.rows"] = (
            f"{left_out} of {left_out + len(truth)} scores had too few shadow scores beside them and were left out"
        )
    return Reading(values, {"fpr": fpr, "tpr": tpr}, notes=notes)


def _why_not(observed: Observations, truth: np.ndarray) -> str:
    if not len(truth):
        return "no example has enough shadow scores on both sides (in and out); use more shadow models"
    if truth.all() or not truth.any():
        return "all examples that could be asked about are on one side (in or out), so there is nothing to distinguish"
    if np.ptp(observed.score) == 0:
        return "every score is the same, so no example can be distinguished from another"
    return ""


# Bins of KLoM's histograms, the least probability of a bin, and the fewest models on either side.
BINS, RAREST, FEWEST = 20, 1e-5, 20
CLIP = 100.0


def klom(unlearned: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """KL divergence of margins (Georgiev et al. 2024) of each sample, in nats.

    Of every sample, histograms of its log-odds under many unlearned and many retrained models, on common bins.

    Args:
        unlearned: Log-odds (models, samples) of models that were trained and unlearned.
        reference: Those of retrained models, for the same samples.
    """
    u, r = (np.clip(np.asarray(each, np.float64), -CLIP, CLIP) for each in (unlearned, reference))
    if u.ndim != 2 or r.ndim != 2 or u.shape[1] != r.shape[1]:
        raise InputError(f"log-odds of {u.shape} and {r.shape} cannot be compared; give (models, samples)")
    if min(len(u), len(r)) < FEWEST:
        raise InputError(
            f"KLoM compares distributions over models, and {min(len(u), len(r))} are too few; give {FEWEST} or more"
        )
    found = []
    for mine, theirs in zip(u.T, r.T, strict=True):
        low, high = min(mine.min(), theirs.min()), max(mine.max(), theirs.max())
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        p, q = (np.histogram(each, edges)[0] / len(each) for each in (mine, theirs))
        some = p > 0
        found.append(float((p[some] * np.log(p[some] / np.maximum(q[some], RAREST))).sum()))
    return np.array(found)
