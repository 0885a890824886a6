"""Trajectory: UA, RA and TA of a model after each epoch of whatever trains it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from residua.data.task import ForgetTask
from residua.measure import Accuracy
from residua.models.classifier import Classifier
from residua.training.loop import Tick, watching

NAMES = ("UA", "RA", "TA")


@dataclass
class Trajectory:
    """One row of UA, RA, TA for each epoch of every `descend` in the body of `following`.

    Phases (collapse, then align) follow each other in one list. Looking changes nothing: the
    weights are those of a run that nobody watches. `seconds` is what the looking took.
    """

    task: ForgetTask
    rows: list[tuple[float, ...]] = field(default_factory=list)
    seconds: float = 0.0

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        with watching(self._look):
            yield

    def _look(self, tick: Tick) -> None:
        if not tick.epoch_done or not isinstance(tick.model, Classifier):
            return
        start = time.perf_counter()
        values = Accuracy()(tick.model, self.task).values
        self.rows.append(tuple(values[name] for name in NAMES))
        self.seconds += time.perf_counter() - start

    def array(self) -> np.ndarray:
        """Epochs x (UA, RA, TA)."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(NAMES))
