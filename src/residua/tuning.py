"""Tuning: the epochs and learning rates at which a method comes nearest to Retrain in UA and TA."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from residua.classifier import Classifier, weights_digest
from residua.errors import Diverged, InputError
from residua.measure.accuracy import accuracy
from residua.task import ForgetTask
from residua.training import seeded
from residua.unlearn import Unlearner

# The range that the paper searched.
RATES = (1e-5, 1e-2)
# What a run that diverged is worth; no gap between shares is larger.
WORST = 2.0


@dataclasses.dataclass(frozen=True)
class Trial:
    """One choice of fields and what came of it."""

    number: int
    fields: dict[str, Any]
    gap: float
    values: dict[str, float]


def gap(found: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """|UA - UA of Retrain| + |TA - TA of Retrain|. IDI is never looked at."""
    return abs(found["UA"] - reference["UA"]) + abs(found["TA"] - reference["TA"])


def tunable(method: Unlearner) -> list[str]:
    """The epochs and learning rates among the method's fields."""
    names = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    return [name for name in names if _is_epochs(name) or _is_rate(name)]


def tune(
    method: Unlearner,
    original: Classifier,
    task: ForgetTask,
    reference: Mapping[str, float],
    *,
    trials: int = 20,
    epochs: int = 10,
    rates: tuple[float, float] = RATES,
    seed: int = 0,
    journal: Path | None = None,
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """`trials` choices, best first. `reference` holds Retrain's UA and TA.

    The method's own fields come first, where they lie in the range: nobody should end with less. Then epochs
    are drawn from 1 to `epochs`, rates log-uniformly from `rates`, by Optuna's TPE. With a `journal` every
    finished trial is kept there, and another call goes on where it stopped.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError("tuning needs Optuna; install it with: pip install 'residua[tune]'") from error
    names = tunable(method)
    if not names:
        raise InputError(
            f"{method.label} has neither epochs nor a learning rate to tune; choose another method"
        )
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name=_named(method, original, task, reference, epochs, rates, seed),
        storage=_storage(journal),
        load_if_exists=True,
    )
    finished = len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
    # A study that goes on must not draw its first choices again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + finished)

    own = {name: getattr(method, name) for name in names}
    begun = study.get_trials(states=(optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.WAITING))
    if not begun and all(
        1 <= value <= epochs if _is_epochs(name) else rates[0] <= value <= rates[1]
        for name, value in own.items()
    ):
        study.enqueue_trial(own)

    def objective(trial: optuna.Trial) -> float:
        fields: dict[str, Any] = {}
        for name in names:
            if _is_epochs(name):
                fields[name] = trial.suggest_int(name, 1, epochs)
            else:
                fields[name] = trial.suggest_float(name, *rates, log=True)
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
    found = [Trial(t.number, dict(t.params), float(t.value or 0.0), t.user_attrs["values"]) for t in done]
    return sorted(found, key=lambda trial: trial.gap)


def _named(
    method: Unlearner,
    original: Classifier,
    task: ForgetTask,
    reference: Mapping[str, float],
    epochs: int,
    rates: tuple[float, float],
    seed: int,
) -> str:
    """A study's name holds all that its trials depend on: those of another model or task are never taken over."""
    aim = {name: reference[name] for name in ("UA", "TA")}
    about = (weights_digest(original), task.manifest()["sha256"], aim, seed, epochs, rates)
    return f"{method!r} {hashlib.sha256(repr(about).encode()).hexdigest()}"


def _storage(journal: Path | None) -> Any:
    if journal is None:
        return None
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls its journal experimental
        return JournalStorage(JournalFileBackend(str(journal)))


def _is_epochs(name: str) -> bool:
    return name == "epochs" or name.endswith("_epochs")


def _is_rate(name: str) -> bool:
    return name in ("lr", "collapse_lr", "align_lr", "repair_lr")
