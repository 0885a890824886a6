"""Shadow models: many models of random halves of the data, for attacks on a method rather than on a model."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from residua.attack import contents
from residua.checkpoint import load, save
from residua.classifier import Classifier, weights_digest
from residua.errors import InputError
from residua.networks import build
from residua.outputs import logits
from residua.record import Record, describe
from residua.task import Dataset, forget_indices
from residua.training import Pretraining, seeded
from residua.unlearn import Unlearner

SMALLEST = 10  # examples that a model forgets at a time, on average


@dataclass(frozen=True, eq=False)
class Shadows:
    """Shadow models 0, 1, 2, ... and forget sets 0, 1, 2, ... of one data set, drawn from `seed`.

    Models come in pairs: 2p is trained on a random half of the training data and 2p + 1 on the other half, so
    that of each pair one model knows an example and one does not. A forget set holds 2 `size` candidates; a
    model unlearns those that it was trained on, about `size`. These are `in`, the others `out`: never trained
    on, then the same unlearning. Candidates are the images of class `of_class` (all where None) that the
    training data hold once; sets share no example until the candidates are used up, then they are drawn anew.

    Neither a model nor a set depends on how many there are: more can be added later. Models are found in
    `folder`, and scores beside it, by the content of what they depend on, but for device and precision.
    """

    data: Dataset
    network: dict[str, Any]
    pretraining: Pretraining
    folder: Path
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
        seed = _number(_key({"seed": self.seed, "what": what}))
        return torch.randperm(n, generator=torch.Generator().manual_seed(seed))

    def model_key(self, model: int) -> str:
        """Equal where data, network, settings and draws are; device and precision have no part in it."""
        if model not in self._keys:
            half = self.data.train.subset(self.half(model))
            self._keys[model] = _key(
                {
                    "half": [half.digest(), half.mean, half.std, half.size],
                    "network": self.network,
                    "pretraining": describe(self.pretraining),
                    "drawn": [self.seed, model],
                    "code": _code(),
                }
            )
        return self._keys[model]

    @cached_property
    def _keys(self) -> dict[int, str]:
        return {}

    def score_key(self, method: Unlearner, model: int, number: int) -> str:
        return _key(
            {
                "model": self.model_key(model),
                "set": self.forget_set(number).tolist(),
                "method": describe(method),
                "code": _code(),
            }
        )

    def find_model(self, model: int) -> Classifier | None:
        """The trained model, if it is there and whole."""
        key = self.model_key(model)
        try:
            record = Record.read(self.folder / f"{key}.json")
            found = load(self.folder / f"{key}.safetensors", device=self.device)
        except InputError:
            return None
        return found if weights_digest(found) == record.method["weights"] else None

    def find_scores(self, method: Unlearner, model: int, number: int) -> Record | None:
        """What was seen of this model after it had unlearned this set, if it is there and whole.

        The key knows the examples that the model was trained on; what the others were is in the record, and so
        is which weights were unlearned: a model trained again on another number of threads may have others.
        """
        path = self._scores(method) / f"{self.score_key(method, model, number)}.json"
        try:
            record = Record.read(path)
        except InputError:
            return None
        examples = self.data.train.subset(self.forget_set(number)).digest()
        original = record.method.get("original")
        same = record.setting.get("examples", examples) == examples
        return record if same and original == (self._weights(model) or original) else None

    def _weights(self, model: int) -> str | None:
        """The hash of this model's weights, by the record of its training if it is there."""
        try:
            return Record.read(self.folder / f"{self.model_key(model)}.json").method.get("weights")
        except InputError:
            return None

    def _scores(self, method: Unlearner) -> Path:
        return (
            self.folder.parent / "scores" / "".join(c if c.isalnum() else "-" for c in method.label.lower())
        )

    def train(self, model: int) -> float:
        """Train and keep this shadow model; the seconds that it took."""
        key = self.model_key(model)
        with seeded(_number(key)):
            start = time.perf_counter()
            found = self.pretraining(self.new_network(), self.data.train.subset(self.half(model)))
            seconds = time.perf_counter() - start
        save(found, self.folder / f"{key}.safetensors")
        Record(
            name=key,
            setting={"network": found.architecture, "model": model},
            method=describe(self.pretraining) | {"weights": weights_digest(found)},
            seeds={"training": _number(key), "shadows": self.seed},
            readings={},
            seconds={"train": seconds},
        ).write(self.folder)
        return seconds

    def new_network(self) -> Classifier:
        return build(**self.network).to(self.device)

    def unlearned(self, method: Unlearner, model: Classifier, half: Tensor, forget_set: Tensor) -> Classifier:
        """The model after it has unlearned those of `forget_set` that it was trained on."""
        own = torch.isin(half, forget_set).nonzero()[:, 0]
        if not len(own):
            raise InputError("a shadow model was trained on nothing of a forget set; choose a larger size")
        task = forget_indices(replace(self.data, train=self.data.train.subset(half)), own)
        return method(model, task)

    def score(self, method: Unlearner, model: int, number: int) -> Record:
        """Unlearn and look: the record keeps example, trained and score of the whole forget set."""
        shadow = self.find_model(model)
        if shadow is None:
            raise InputError(f"shadow model {model} is missing or damaged; run the command again")
        key = self.score_key(method, model, number)
        half, asked = self.half(model), self.forget_set(number)
        with seeded(_number(key)):
            start = time.perf_counter()
            found = self.unlearned(method, shadow, half, asked)
            seconds = time.perf_counter() - start
        split = self.data.train.subset(asked)
        record = Record(
            name=key,
            setting={"model": model, "set": number, "examples": split.digest()},
            method=describe(method) | {"original": weights_digest(shadow)},
            seeds={"method": _number(key), "shadows": self.seed},
            readings={},
            seconds={"RTE": seconds},
            arrays={
                "example": asked.numpy(),
                "trained": torch.isin(asked, half).numpy(),
                "score": scores(logits(found, split), split.labels),
            },
        )
        record.write(self._scores(method))
        return record


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


def _key(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _number(key: str) -> int:
    """A seed from a key."""
    return int(key[:15], 16)


@cache
def _code() -> str:
    return version("residua")
