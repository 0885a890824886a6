"""Tuning: the epochs, learning rates and own settings at which a method comes nearest to Retrain in UA and TA.

TA is read on a part of the training data that was left out for it (`validation.py`), never on the test data, and IDI is
never looked at. The search proposes fields, and what came of them is a cell of the store. So it has nothing of its own to remember: from
the same seed it proposes the same again, and finds in the store what an earlier run has tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.facts import Setting, TaskFacts
from residua.measure import Accuracy, InformationCurve
from residua.models.classifier import Classifier, weights_digest
from residua.study import seeding
from residua.study.cells import Cell, Context, Measurement, Training, Unlearning
from residua.study.computing import Conductor, How, conductor
from residua.study.definition import reading_of
from residua.study.searches import WORST, Trial, idi_of, near_best, search_record
from residua.study.store import Store
from residua.study.trial_cells import Trying
from residua.study.validation import SHARE, validation_task
from residua.texts import slug
from residua.training.pretraining import Pretraining
from residua.training.settings import described
from residua.unlearn import Original, Retrain, Unlearner

# Proposals that are made at once, however many workers there are, so that the search does not depend on them.
AT_ONCE = 4
TASK = "tuned"


@dataclasses.dataclass(frozen=True)
class Range:
    """Where the values of one field are drawn from, log-uniformly: ten epochs rather than nine say little."""

    low: float
    high: float
    whole: bool

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def drawn(self, trial: Any, name: str) -> float:
        if self.whole:
            return int(trial.suggest_int(name, int(self.low), int(self.high), log=True))
        return float(trial.suggest_float(name, self.low, self.high, log=True))


def gap(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """|UA - UA of Retrain| + |TA - TA of Retrain|. IDI is never looked at."""
    return abs(values["UA"] - reference["UA"]) + abs(values["TA"] - reference["TA"])


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
    if not by_field:
        raise InputError(f"{method.label} has no setting that may be tuned; choose another method")
    return by_field


@dataclasses.dataclass(frozen=True)
class Start:
    """Original and Retrain are trained: what `network` (arguments of `networks.build`) and `pretraining` give."""

    network: Mapping[str, Any]
    pretraining: Pretraining


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Original is there, and so is what Retrain reaches: its UA and TA, both without the validation data."""

    original: Classifier
    reference: Mapping[str, float]


def tune(
    method: Unlearner,
    task: ForgetTask,
    start: Start | Given,
    *,
    out: str | Path,
    trials: int = 20,
    epochs: int | None = None,
    low: float | None = None,
    high: float | None = None,
    seed: int = 0,
    validation: float = SHARE,
    part: float = 1,
    choices: Sequence[dict[str, Any]] | None = None,
    measure: InformationCurve | None = None,
    scale: str = "custom",
    report: Callable[[Trial], None] = lambda trial: None,
    **how: Any,
) -> list[Trial]:
    """`trials` choices, best first.

    The method's own values come first, where they are in range: nobody should end with less. The others are drawn
    from the `ranges` of its fields by Optuna's TPE. TA is that of the `validation` share of the training data, which no
    model sees; `part` of the others is used. `choices` are tried instead of new ones: the best of an earlier search
    on less data. With `measure` models are kept, and when the search is over the IDI of all choices within one point of
    the best is read. Everything is kept in `out`, finished trials too, and `out/records` has a record of the
    search. `how` are the fields of `computing.How`.
    """
    if trials < 1:
        raise InputError(f"{trials} trials were asked for, but a search needs at least one; write 1 or more")
    if measure is not None and isinstance(start, Given):
        raise InputError("IDI of settings needs Retrain itself; let Original and Retrain be trained")
    drawn_from = ranges(method, epochs, low, high)
    search = None if choices is not None else _search(method, drawn_from, seed)
    task = validation_task(task, validation, part=part)
    options = _counting(How(**how), trials + (3 if isinstance(start, Start) else 0))
    given = start.original if isinstance(start, Given) else None
    context = Context({TASK: task}, options.device, original=given)
    with conductor(Path(out), context, context.task_facts(), options) as compute:
        trying = _Trials(method, start, seed, compute, keep=measure is not None)
        if search is None:
            tried = [trial for trial in trying(list(choices or ())) if trial is not None]
            for trial in tried:
                report(trial)
        else:
            tried = _searched(search, trying, drawn_from, trials, report)
        tried.sort(key=lambda trial: trial.gap)
        if measure is not None:
            tried = trying.read(tried, measure, Store(Path(out), options.tell))
    setting = Setting(scale=scale, network=dict(trying.network), task=TaskFacts(**task.manifest()))
    record = search_record(method, tried, setting, trying.aim, seed, options.command)
    if record is not None:
        record.write(Path(out) / "records")
    for name, why in trying.failures.items():
        options.tell(f"{name} failed: {why}; the same command tries it again")
    return tried


def _counting(options: How, total: int) -> How:
    """Progress out of all cells that the search will make, not of those that are asked for so far; IDI comes on top."""
    whole = options.progress
    return dataclasses.replace(
        options, progress=lambda step: whole(dataclasses.replace(step, total=max(total, step.total)))
    )


def _searched(
    search: Any,
    trying: _Trials,
    drawn_from: Mapping[str, Range],
    trials: int,
    report: Callable[[Trial], None],
) -> list[Trial]:
    """What came of so many proposals, a few at a time, in the order in which they were made."""
    tried: list[Trial] = []
    asked = 0
    while asked < trials:
        some = [search.ask() for _ in range(min(AT_ONCE, trials - asked))]
        asked += len(some)
        fields = [{name: each.drawn(one, name) for name, each in drawn_from.items()} for one in some]
        for one, trial in zip(some, trying(fields), strict=True):
            if trial is None:
                search.tell(one, state=_failed())
                continue
            search.tell(one, trial.gap)
            report(trial)
            tried.append(trial)
    return tried


class _Trials:
    """Makes choices into cells and cells into trials; those of earlier calls stay part of the run."""

    def __init__(
        self, method: Unlearner, start: Start | Given, seed: int, compute: Conductor, keep: bool
    ) -> None:
        self.method, self.start, self.seed, self.compute, self.keep = method, start, seed, compute, keep
        self.failures: dict[str, str] = {}
        self._tried = 0
        self._cells: list[Cell] = []
        self._parents: tuple[Training, ...] = ()
        if isinstance(start, Given):
            self.network = start.original.architecture
            self._weights: str | None = weights_digest(start.original)
            self.aim = start.reference
            return
        self.network, self._weights = dict(start.network), None
        self.aim = self._reached(start)

    def _reached(self, start: Start) -> Mapping[str, float]:
        """Train Original and Retrain; UA and TA of the latter."""
        training = Training(
            f"seed{self.seed}-training",
            TASK,
            start.network,
            start.pretraining,
            seeding.training(self.seed),
        )
        name = f"seed{self.seed}-retrain"
        retrain = Retrain(start.pretraining)
        made = Unlearning(name, TASK, start.network, retrain, seeding.from_scratch(self.seed), ())
        accuracy = Measurement(f"{name}/accuracy", Accuracy(), made)
        self._parents, self._cells, self._retrain = (training,), [training, made, accuracy], made
        run = self.compute(self._cells)
        for cell, why in run.failures.items():
            raise InputError(f"{cell.name}: {why}")
        reached: Mapping[str, float] = run.results[accuracy].values["values"]
        return reached

    def __call__(self, choices: list[dict[str, Any]]) -> Iterator[Trial | None]:
        """What came of each choice; None where it failed otherwise than by diverging."""
        first, self._tried = self._tried, self._tried + len(choices)
        cells = [self._cell(number, fields) for number, fields in enumerate(choices, first)]
        self._cells += cells
        run = self.compute(self._cells)
        for number, (cell, fields) in enumerate(zip(cells, choices, strict=True), first):
            if cell in run.failures:
                self.failures[cell.name] = run.failures[cell]
                yield None
                continue
            values = run.results[cell].values["values"]
            yield Trial(number, fields, gap(values, self.aim) if values else WORST, values)

    def read(self, tried: list[Trial], measure: InformationCurve, store: Store) -> list[Trial]:
        """The trials, those within one point of the best with their IDI."""
        near = near_best(tried)
        seed = seeding.unlearning(self.seed)
        rows = {"original": Unlearning(f"seed{self.seed}-original", TASK, self.network, Original(), seed, self._parents),
                "retrain": self._retrain}  # fmt: skip
        rows |= {str(trial.number): self._cell(trial.number, trial.fields) for trial in near}
        asked = {key: Measurement(f"{row.name}/{measure.label}", measure, row) for key, row in rows.items()}
        run = self.compute([*self._cells, *rows.values(), *asked.values()])
        self.failures |= {cell.name: why for cell, why in run.failures.items()}
        curves = {
            key: reading_of(run.results[cell], store)
            for key, cell in asked.items()
            if cell in run.results and "refused" not in run.results[cell].values
        }
        values = idi_of(curves)
        return [dataclasses.replace(trial, idi=values.get(str(trial.number))) for trial in tried]

    def _cell(self, number: int, fields: dict[str, Any]) -> Trying:
        name = f"seed{self.seed}-{slug(self.method.label)}-trial{number}"
        chosen = dataclasses.replace(self.method, **fields)  # type: ignore[type-var]
        seed = seeding.unlearning(self.seed)
        return Trying(
            name, TASK, self.network, chosen, seed, self._parents, weights=self._weights, keep=self.keep
        )


def _search(method: Unlearner, drawn_from: Mapping[str, Range], seed: int) -> Any:
    """An Optuna study in memory, whose first choice are the method's own values, where they are in range.

    It learns from the first few at once: many searches are short, and Optuna's ten random choices would be all of them.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError("tuning needs Optuna; install it with: pip install 'residua[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seeding.search(seed), n_startup_trials=AT_ONCE)
    search = optuna.create_study(sampler=sampler)
    own = {name: getattr(method, name) for name in drawn_from}
    if all(drawn_from[name].holds(value) for name, value in own.items()):
        search.enqueue_trial(own)
    return search


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL
