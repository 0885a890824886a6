"""Samples and labels of an information curve: their folds, their frequencies and their entropy."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.errors import InputError

FEWEST = 20  # samples of a label


def check_labels(y: Tensor, n: int) -> Tensor:
    """The labels as 0, 1, ... without gaps; labels that cannot be read are refused."""
    if y.ndim != 1 or y.is_floating_point() or len(y) != n:
        raise InputError(
            f"labels have shape {tuple(y.shape)} and type {y.dtype}, expected one whole number for each of the "
            f"{n} features"
        )
    if len(y) and int(y.min()) < 0:
        raise InputError(f"labels out of range: the smallest is {int(y.min())}, expected 0 or more")
    kinds, y, counts = torch.unique(y.long(), return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        raise InputError("there is only one label, so there is nothing to tell apart; give at least two")
    if int(counts.min()) < FEWEST:
        raise InputError(
            f"a label has only {int(counts.min())} samples, expected at least {FEWEST}; give more, or join labels"
        )
    return y


def frequencies(y: Tensor, labels: int = 0) -> Tensor:
    """p(c): the share of each label."""
    return torch.bincount(y, minlength=labels).double() / len(y)


def entropy(prior: Tensor) -> float:
    """H(Y) in nats: the reading of a perfect critic."""
    return float(-(prior * prior.log()).sum())


def stratified_folds(y: Tensor, folds: int) -> Tensor:
    """The fold of each sample: at random, with each label spread evenly."""
    fold = torch.empty(len(y), dtype=torch.int64)
    for label in y.unique():
        where = (y == label).nonzero()[:, 0]
        fold[where[torch.randperm(len(where))]] = torch.arange(len(where)) % folds
    return fold


# Samples that take part without being read in turn.
FIT_ONLY, READ_ONLY = -1, -2
FitOn = Literal["forget", "retain"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples with their label Y and their fold.

    Those of folds 0, 1, ... are read by critics that were fitted on the other folds and on FIT_ONLY. READ_ONLY
    samples, test images, are read by the critics of every fold and never fitted on.
    """

    parts: tuple[Split, ...]
    y: Tensor
    fold: Tensor

    @property
    def asked(self) -> Tensor:
        """Positions of the samples that I(Z; Y) is the mean over."""
        return (self.fold >= 0).nonzero()[:, 0]

    @property
    def prior(self) -> Tensor:
        """p(c): the share of each label among the samples asked."""
        return frequencies(self.y[self.asked], int(self.y.max()) + 1)

    def fit_prior(self) -> Tensor:
        """The share of each label among what critics are fitted on."""
        return frequencies(self.y[self.fold != READ_ONLY], int(self.y.max()) + 1)

    def inside(self, fold: int, halves: bool = False) -> Tensor:
        """Samples that the critic of this fold is fitted on; with `halves`, every second fold counts as one."""
        own = self.fold % 2 if halves else self.fold
        return (((own != fold) | (self.fold == FIT_ONLY)) & (self.fold != READ_ONLY)).nonzero()[:, 0]

    def outside(self, fold: int, halves: bool = False) -> Tensor:
        """Samples that the critic of this fold reads."""
        own = self.fold % 2 if halves else self.fold
        return (((own == fold) & (self.fold >= 0)) | (self.fold == READ_ONLY)).nonzero()[:, 0]

    def digest(self) -> str:
        sha = hashlib.sha256()
        for part in self.parts:
            sha.update(part.digest().encode())
        sha.update(self.y.numpy().tobytes())
        return sha.hexdigest()


def samples(task: ForgetTask, *, ratio: str = "all", fit_on: FitOn = "retain", folds: int = 4) -> Samples:
    """Samples that a curve of this task is read on. PyTorch's generator draws folds and left-out retained samples.

    Class-wise, Y is 1 on the forget set and 0 on the retain set, of which `ratio` keeps some: `all`, `1:5`
    (forget : retain) or `10%`. In random forgetting Y is the class and I is read on the forget set;
    `fit_on="retain"` lets critics see the retained samples too, which makes them sharper. Test images are
    read besides: what a model knows of images that nobody asked it to forget.
    """
    keep = _kept(ratio, len(task.forget), len(task.retain))
    chosen = torch.randperm(len(task.retain))[:keep].sort().values
    retain = task.retain if keep == len(task.retain) else task.retain.subset(chosen)
    if task.scenario == "class":
        asked = [retain, task.forget]
        y = torch.cat([torch.zeros(len(retain)), torch.ones(len(task.forget))]).long()
        fit: list[Split] = []
        test = [task.test, task.forget_test]
        test_y = torch.cat([torch.zeros(len(task.test)), torch.ones(len(task.forget_test))]).long()
    else:
        asked, y = [task.forget], task.forget.labels.cpu()
        fit = [retain] if fit_on == "retain" else []
        test, test_y = [task.test], task.test.labels.cpu()
    check_labels(y, len(y))
    labels, y = torch.unique(y, return_inverse=True)
    parts = [*asked]
    fold = stratified_folds(y, folds)
    for split in fit:
        known = torch.isin(split.labels.cpu(), labels).nonzero()[:, 0]
        parts.append(split if len(known) == len(split) else split.subset(known))
        y = torch.cat([y, torch.searchsorted(labels, split.labels.cpu()[known])])
        fold = torch.cat([fold, torch.full((len(known),), FIT_ONLY)])
    known = torch.isin(test_y, labels)
    if len(test_y) and bool(known.all()):
        parts += [split for split in test if len(split)]
        y = torch.cat([y, torch.searchsorted(labels, test_y)])
        fold = torch.cat([fold, torch.full((len(test_y),), READ_ONLY)])
    return Samples(tuple(parts), y, fold)


def _kept(ratio: str, forget: int, retain: int) -> int:
    try:
        if ratio == "all":
            return retain
        if ratio.endswith("%"):
            keep = math.ceil(retain * float(ratio[:-1]) / 100)
        else:
            left, right = ratio.split(":")
            keep = round(forget * float(right) / float(left))
    except (ValueError, ZeroDivisionError):
        keep = 0
    if not 0 < keep <= retain:
        raise InputError(
            f"ratio {ratio!r} cannot be kept with {forget} forget and {retain} retain samples; "
            "write all, 1:5 (forget : retain) or 10%"
        )
    return keep
