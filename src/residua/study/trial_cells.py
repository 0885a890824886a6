"""The cells of `tune`: unlearn with one choice of fields, and read UA and TA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from residua.errors import Diverged
from residua.measure.accuracy import accuracy
from residua.models.classifier import Classifier
from residua.study.cells import REVISIONS, Context, Output, Unlearning, kept
from residua.study.store import Result, Store


@dataclass(frozen=True, eq=False)
class Trying(Unlearning):
    """An unlearning whose UA and TA are read at once; `weights` are those of an Original that was not trained here.

    That a choice diverges is an answer, and as lasting as any other. The model is kept only where `keep` says so: most
    choices are never looked at again. What is measured of one that was not kept makes it again.
    """

    kind: ClassVar[str] = "trial"

    weights: str | None = None
    keep: bool = field(default=False, kw_only=True)

    def inputs(self, facts: Mapping[str, Any], device: str, parents: Sequence[Result]) -> dict[str, Any]:
        about = super().inputs(facts, device, parents) | {"read": [REVISIONS["measure"], 2]}
        return about if self.weights is None else about | {"original": self.weights}

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        task = context.tasks[self.task]
        try:
            model, spent = self.make(context, store, parents)
        except Diverged as error:
            return Output({"values": {}, "diverged": str(error)})
        # RA is not looked at, and of the three it costs the most.
        values = {"UA": 1 - accuracy(model, task.forget), "TA": accuracy(model, task.test)}
        return Output(kept(store, model, keep=self.keep) | {"values": values, "RTE": spent})

    def original(self, context: Context, store: Store, parents: Sequence[Result]) -> Classifier:
        return super().original(context, store, parents) if context.original is None else context.original
