"""What shadow models and their unlearning will cost, found out before anything starts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from residua.device import resolve_precision
from residua.errors import Diverged
from residua.models.classifier import Classifier
from residua.study.shadows import Shadows
from residua.training.loop import Tick, seeded, watching
from residua.unlearn import Unlearner

# Seconds after which a probe is stopped, and computed from the steps that it has made.
TRAINING_PROBE, METHOD_PROBE = 5.0, 30.0


class Plan:
    """What is still to be made, and what that costs.

    `to_train` says of each model, `to_score` of each method, model and forget set, whether it is missing;
    `training` and `unlearning` are the costs of one of them. Scores of a model that is trained again count as
    missing: only its weights tell whether they hold.
    """

    def __init__(
        self, shadows: Shadows, to_train: np.ndarray, to_score: Mapping[Unlearner, np.ndarray], jobs: int
    ) -> None:
        self.shadows, self.unlearners = shadows, list(to_score)
        self.to_train, self.to_score, self.jobs = to_train, to_score, jobs
        self.models, self.sets = next(iter(to_score.values())).shape
        self.training, self.unlearning = self._probe()

    def _probe(self) -> tuple[Cost, dict[Unlearner, Cost]]:
        """One training and one unlearning of each method, on as many threads as a job has.

        The network that is unlearned is a new one: how long a step takes does not depend on the weights.
        """
        shadows, half = self.shadows, self.shadows.half(0)
        resolve_precision("auto", torch.device(shadows.device))  # found out once, not at every training
        threads = torch.get_num_threads()
        if self.jobs > 1:
            torch.set_num_threads(1)
        try:
            with seeded(0):
                network, split = shadows.new_network(), shadows.data.train.subset(half)
                training, unlearning = Cost(0.0), dict.fromkeys(self.unlearners, Cost(0.0))
                if self.to_train.any():
                    training = cost(lambda: shadows.pretraining(network, split), TRAINING_PROBE)
                for unlearner, missing in self.to_score.items():
                    if missing.any():
                        unlearning[unlearner] = cost(self._attempt(unlearner, network), METHOD_PROBE)
        finally:
            torch.set_num_threads(threads)
        return training, unlearning

    def _attempt(self, unlearner: Unlearner, network: Classifier) -> Callable[[], object]:
        half, forget_set = self.shadows.half(0), self.shadows.forget_set(0)

        def attempt() -> None:
            with contextlib.suppress(Diverged):  # an untrained network may; its steps took as long as any
                self.shadows.unlearned(unlearner, network, half, forget_set)

        return attempt

    @property
    def whole(self) -> bool:
        """Whether every method ran to its end; otherwise the plan costs at least what it says."""
        return all(cost.whole for cost in self.unlearning.values())

    def seconds(self, models: int, sets: int) -> float:
        """Seconds for so many models and forget sets, without what is there already."""
        training = self.training.seconds * self.to_train[:models].sum()
        unlearning = sum(
            self.unlearning[unlearner].seconds * missing[:models, :sets].sum()
            for unlearner, missing in self.to_score.items()
        )
        return float(training + unlearning) / self.jobs

    def largest(self, allowed: float) -> tuple[int, int] | None:
        """The most models and forget sets that these seconds allow, cut down alike; None if nothing fits."""
        fitting = [
            (min(models / self.models, sets / self.sets), models * sets, models, sets)
            for models in range(4, self.models + 1, 4)
            for sets in range(1, self.sets + 1)
            if self.seconds(models, sets) <= allowed
        ]
        return max(fitting)[2:] if fitting else None


@dataclass(frozen=True)
class Cost:
    """Seconds that some work takes; where it is not `whole`, at least as many."""

    seconds: float
    whole: bool = True


def cost(work: Callable[[], object], patience: float) -> Cost:
    """Do the work and time it. Once `patience` seconds are over, its `descend` is stopped and its end computed."""
    start = time.perf_counter()
    first: list[tuple[Tick, float]] = []

    def watch(tick: Tick) -> None:
        now = time.perf_counter()
        if not first or first[0][0].model is not tick.model or tick.epoch == tick.step == 1:
            first[:] = [(tick, now)]
            return
        done = (tick.epoch - 1) * tick.steps + tick.step
        if now - start > patience and done >= 4:
            each = (now - first[0][1]) / (done - 1)
            raise _EnoughError(first[0][1] - start + each * (tick.epochs * tick.steps - 1))

    try:
        with watching(watch):
            work()
    except _EnoughError as enough:
        return Cost(enough.args[0], whole=False)
    return Cost(time.perf_counter() - start)


class _EnoughError(Exception):
    """Stops a training whose end can be computed."""
