"""Tuning: the epochs and learning rates at which a method comes nearest to Retrain in UA and TA."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from residua.data.task import ForgetTask
from residua.errors import Diverged, InputError
from residua.measure.accuracy import accuracy
from residua.models.classifier import Classifier, weights_digest
from residua.training.loop import seeded
from residua.training.settings import described
from residua.unlearn import Unlearner

# What a run that diverged is worth; no gap between shares is larger.
WORST = 2.0


@dataclasses.dataclass(frozen=True)
class Trial:
    """One choice of fields and what came of it."""

    number: int
    fields: dict[str, Any]
    gap: float
    values: dict[str, float]


def gap(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """|UA - UA of Retrain| + |TA - TA of Retrain|. IDI is never looked at."""
    return abs(values["UA"] - reference["UA"]) + abs(values["TA"] - reference["TA"])


@dataclasses.dataclass(frozen=True)
class Range:
    """Where the values of one field are drawn from: whole numbers uniformly, others log-uniformly."""

    low: float
    high: float
    whole: bool

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def drawn(self, trial: Any, name: str) -> float:
        if self.whole:
            return int(trial.suggest_int(name, int(self.low), int(self.high)))
        return float(trial.suggest_float(name, self.low, self.high, log=True))


def ranges(
    method: Unlearner,
    epochs: int | None = None,
    low: float | None = None,
    high: float | None = None,
) -> dict[str, Range]:
    """Where each field that says that it may be tuned is drawn from.

    `epochs` is the most that a field of whole numbers may be, `low` and `high` bound the others; None leaves that
    to the field.
    """
    by_field = {}
    for name, field in described(type(method)).items():
        if field.setting.tune is None:
            continue
        least, most = field.setting.tune
        if field.whole:
            by_field[name] = Range(least, most if epochs is None else epochs, True)
        else:
            by_field[name] = Range(least if low is None else low, most if high is None else high, False)
    for name, of_field in by_field.items():
        if not 0 < of_field.low <= of_field.high:
            raise InputError(
                f"{name} would be drawn from {of_field.low:g} to {of_field.high:g}; "
                "give --low and --high with 0 < low <= high, and at least one epoch"
            )
    return by_field


def tune(
    method: Unlearner,
    original: Classifier,
    task: ForgetTask,
    reference: Mapping[str, float],
    *,
    trials: int = 20,
    epochs: int | None = None,
    low: float | None = None,
    high: float | None = None,
    seed: int = 0,
    journal: Path | None = None,
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """`trials` choices, best first. `reference` holds Retrain's UA and TA.

    The method's own values come first, where they are in range: nobody should end with less. The others are drawn
    from the `ranges` of its fields by Optuna's TPE. With a `journal` every finished trial is kept there, and another
    call resumes where it stopped.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError("tuning needs Optuna; install it with: pip install 'residua[tune]'") from error
    drawn_from = ranges(method, epochs, low, high)
    if not drawn_from:
        raise InputError(f"{method.label} has no setting that may be tuned; choose another method")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name=_named(method, original, task, reference, drawn_from, seed),
        storage=_storage(journal),
        load_if_exists=True,
    )
    finished = len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
    # A study that goes on must not draw its first choices again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + finished)
    _begin_with_own_values(study, method, drawn_from)

    def objective(trial: optuna.Trial) -> float:
        fields = {name: of_field.drawn(trial, name) for name, of_field in drawn_from.items()}
        try:
            with seeded(seed):
                model = dataclasses.replace(method, **fields)(original, task)  # type: ignore[type-var]
            # RA is not looked at, and of the three it costs the most.
            values = {"UA": 1 - accuracy(model, task.forget), "TA": accuracy(model, task.test)}
            worth = gap(values, reference)
        except Diverged:
            values, worth = {}, WORST
        trial.set_user_attr("values", values)
        report(Trial(trial.number, fields, worth, values))
        return worth

    if finished < trials:
        study.optimize(objective, n_trials=trials - finished)
    done = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    tried = [Trial(t.number, dict(t.params), float(t.value or 0.0), t.user_attrs["values"]) for t in done]
    return sorted(tried, key=lambda trial: trial.gap)


def _begin_with_own_values(study: Any, method: Unlearner, drawn_from: Mapping[str, Range]) -> None:
    """The method's own values are the first trial of a new study, where they are in range."""
    from optuna.trial import TrialState

    own = {name: getattr(method, name) for name in drawn_from}
    begun = study.get_trials(states=(TrialState.COMPLETE, TrialState.WAITING))
    if not begun and all(drawn_from[name].holds(value) for name, value in own.items()):
        study.enqueue_trial(own)


def _named(
    method: Unlearner,
    original: Classifier,
    task: ForgetTask,
    reference: Mapping[str, float],
    drawn_from: Mapping[str, Range],
    seed: int,
) -> str:
    """A study's name holds all that its trials depend on: those of another model or task are never taken over."""
    aim = {name: reference[name] for name in ("UA", "TA")}
    about = (weights_digest(original), task.manifest()["sha256"], aim, seed, drawn_from)
    return f"{method!r} {hashlib.sha256(repr(about).encode()).hexdigest()}"


def _storage(journal: Path | None) -> Any:
    if journal is None:
        return None
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls its journal experimental
        return JournalStorage(JournalFileBackend(str(journal)))
