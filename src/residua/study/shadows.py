"""Shadow models: many models of random halves of the data, for attacks on a method rather than on a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from residua.data.task import Dataset, forget_indices
from residua.errors import InputError
from residua.measure._attack import contents
from residua.models.classifier import Classifier
from residua.models.networks import build
from residua.study.seeding import derived
from residua.training.pretraining import Pretraining
from residua.unlearn import Unlearner

SMALLEST = 10  # examples that a model forgets at a time, on average


@dataclass(frozen=True, eq=False)
class Shadows:
    """Shadow models 0, 1, 2, ... and forget sets 0, 1, 2, ... of one data set, drawn from `seed`.

    Models come in pairs: 2p is trained on a random half of the training data and 2p + 1 on the other half, so
    that of each pair one model knows an example and one does not. A forget set holds 2 `size` candidates; a
    model unlearns those that it was trained on, about `size`. These are `in`, the others `out`: never trained
    on, then the same unlearning. Candidates are the images of class `of_class` (all where None) that the
    training data hold once; sets share no example until the candidates are used up, then they are drawn again.

    Neither a model nor a set depends on how many there are: more can be added later. `shadow_cells.py` trains and
    scores them.
    """

    data: Dataset
    network: dict[str, Any]
    pretraining: Pretraining
    of_class: int | None = None
    size: int = 200
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        train = self.data.train
        if self.size < SMALLEST:
            raise InputError(f"the size of a forget set is {self.size}, expected {SMALLEST} or more")
        if self.of_class is not None and not 0 <= self.of_class < train.classes:
            raise InputError(
                f"class {self.of_class} is not in {self.data.name}, which has the classes 0 to {train.classes - 1}; "
                "name one that is there"
            )
        if train.classes < 2:
            raise InputError(f"{self.data.name} has one class, so every score is infinite; use data with two")
        if len(self.candidates) < 4 * self.size:
            raise InputError(
                f"forget sets of {self.size} need {4 * self.size} candidates, so that others of their kind are "
                f"retained, but {self.data.name} has {len(self.candidates)}; choose a smaller size or more classes"
            )

    @cached_property
    def candidates(self) -> Tensor:
        """Positions in the training data. An image that is there twice could be in and out at once."""
        hashes = contents(self.data.train)
        count: dict[bytes, int] = {}
        for content in hashes:
            count[content] = count.get(content, 0) + 1
        once = torch.tensor([count[content] == 1 for content in hashes])
        if self.of_class is not None:
            once &= self.data.train.labels == self.of_class
        return once.nonzero()[:, 0]

    def half(self, model: int) -> Tensor:
        """What this model is trained on, as positions in the training data."""
        order = self._order(len(self.data.train), "half", model // 2)
        middle = len(order) // 2
        return (order[:middle] if model % 2 == 0 else order[middle:]).sort().values

    def forget_set(self, number: int) -> Tensor:
        """2 `size` candidates, as positions in the training data."""
        candidates = self.candidates
        sets = len(candidates) // (2 * self.size)
        order = self._order(len(candidates), "sets", number // sets)
        start = number % sets * 2 * self.size
        return candidates[order[start : start + 2 * self.size]]

    def _order(self, n: int, *what: object) -> Tensor:
        generator = torch.Generator().manual_seed(derived("shadows", self.seed, *what))
        return torch.randperm(n, generator=generator)

    def new_network(self) -> Classifier:
        return build(**self.network).to(self.device)

    def unlearned(self, method: Unlearner, model: Classifier, half: Tensor, forget_set: Tensor) -> Classifier:
        """The model after it has unlearned those of `forget_set` that it was trained on."""
        own = torch.isin(half, forget_set).nonzero()[:, 0]
        if not len(own):
            raise InputError("a shadow model was trained on nothing of a forget set; choose a larger size")
        task = forget_indices(replace(self.data, train=self.data.train.subset(half)), own)
        return method(model, task)


def sides(models: int) -> tuple[range, range]:
    """Which models are shadows while the others are targets: half of the pairs each, and no pair divided."""
    if models < 4 or models % 4:
        raise InputError(
            f"{models} shadow models were asked for, expected a multiple of 4: they come in pairs, half of the pairs "
            "are shadows and half are targets"
        )
    return range(models // 2), range(models // 2, models)


def scores(logits: Tensor, labels: Tensor) -> np.ndarray:
    """log p_y - log(1 - p_y) = z_y - log sum_{c != y} exp z_c in float64: finite for logits of any size."""
    z = logits.double()
    own = torch.nn.functional.one_hot(labels, z.shape[1]).bool()
    others = z.masked_fill(own, -torch.inf).logsumexp(dim=1)
    return (z[own] - others).numpy()
