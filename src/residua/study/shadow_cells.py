"""The cells of U-LiRA: train a shadow model; unlearn one forget set with one method, and score it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from residua.errors import InputError
from residua.measure._outputs import logits
from residua.record import describe
from residua.study.cells import FIRST, REVISIONS, Cell, Context, Output, kept, kind_of, split_facts
from residua.study.seeding import derived
from residua.study.shadows import Shadows, scores
from residua.study.store import Result, Store
from residua.training.loop import seeded
from residua.unlearn import Unlearner


@dataclass(frozen=True, eq=False)
class ShadowTraining:
    """Shadow model number `model`, of its half of the data."""

    kind: ClassVar[str] = "train"

    model: int
    parents: tuple[Cell, ...] = ()

    @property
    def name(self) -> str:
        return f"shadow model {self.model}"

    @property
    def group(self) -> object:
        return self

    @property
    def cost(self) -> float:
        return FIRST  # scores wait for it

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        shadows: Shadows = facts["shadows"]
        return {
            "revision": REVISIONS["train"],
            "network": shadows.network,
            "pretraining": describe(shadows.pretraining)["fields"],
            "data": split_facts(shadows.data.train.subset(shadows.half(self.model))),
            "seed": self._seed(shadows),
            "device": kind_of(device),
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        shadows: Shadows = context.shadows
        with seeded(self._seed(shadows)):
            start = time.perf_counter()
            half = shadows.data.train.subset(shadows.half(self.model))
            model = shadows.pretraining(shadows.new_network(), half)
            spent = time.perf_counter() - start
        return Output(kept(store, model, keep=True) | {"train": spent})

    def _seed(self, shadows: Shadows) -> int:
        return derived("shadow training", shadows.seed, self.model)


@dataclass(frozen=True, eq=False)
class ShadowScoring:
    """What is seen of one shadow model after it has unlearned its part of one forget set."""

    kind: ClassVar[str] = "score"

    method: Unlearner
    number: int
    trained: ShadowTraining

    @property
    def name(self) -> str:
        return f"{self.method.label} on {self.trained.name} and forget set {self.number}"

    @property
    def parents(self) -> tuple[Cell, ...]:
        return (self.trained,)

    @property
    def group(self) -> object:
        return self

    @property
    def cost(self) -> float:
        return 1.0

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        shadows: Shadows = facts["shadows"]
        examples = shadows.forget_set(self.number)
        return {
            "revision": [REVISIONS["unlearn"], getattr(self.method, "revision", 1)],
            "method": describe(self.method),
            "original": parents[0].values["weights"],
            "data": parents[0].inputs["data"],
            "examples": [examples.tolist(), *split_facts(shadows.data.train.subset(examples))],
            "seed": self._seed(shadows),
            "device": kind_of(device),
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        shadows: Shadows = context.shadows
        original = store.model(parents[0].values["weights"], context.device)
        half, examples = shadows.half(self.trained.model), shadows.forget_set(self.number)
        try:
            with seeded(self._seed(shadows)):
                start = time.perf_counter()
                model = shadows.unlearned(self.method, original, half, examples)
                spent = time.perf_counter() - start
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        split = shadows.data.train.subset(examples)
        arrays = {
            "example": examples.numpy(),
            "trained": torch.isin(examples, half).numpy(),
            "score": scores(logits(model, split), split.labels),
        }
        return Output({"RTE": spent}, arrays)

    def _seed(self, shadows: Shadows) -> int:
        return derived("shadow unlearning", shadows.seed, self.trained.model, self.number)
