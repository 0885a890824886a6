"""Tuning: the epochs and learning rates at which a method is acceptable by UA and TA, and its IDI over all of them.

The rule is one-sided: UA and TA at most a point below Retrain's, which for a forgotten class is a UA of at least 99 %. More
accuracy than Retrain's is no fault. Learning rates are those of the paper's grid, 1e-5 to 1e-2 with linear steps in each
decade; fields of a method's own stay as they are.

TA is read on a part of the training data that was left out for it (`validation_task`), never on the test data, and IDI is
never looked at. The search proposes fields, and what came of them is a cell of the store. So it has nothing of its own to remember: from
the same seed it proposes the same again, and finds in the store what an earlier run has tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch

from residua.compare.information import idi_value
from residua.data.task import ForgetTask, parted
from residua.errors import Diverged, InputError
from residua.measure import Accuracy, InformationCurve
from residua.measure.accuracy import accuracies, accuracy
from residua.measure.measuring import Taken, recorded
from residua.models.classifier import Classifier, weights_digest
from residua.readings import Curve, Reading
from residua.record import MethodFacts, Record, Setting, TaskFacts, describe
from residua.study import cells as kinds
from residua.study.definition import reading_of
from residua.study.executors import How
from residua.study.schedule import Compute, computing
from residua.study.store import Result, Store
from residua.text import slug
from residua.training.pretraining import Pretraining
from residua.training.settings import described
from residua.unlearn import Original, Retrain, Unlearner

SHARE = 0.1


def validation_task(task: ForgetTask, share: float = SHARE, seed: int = 0, part: float = 1) -> ForgetTask:
    """The same request on less data: `share` of each class's training examples is left out and becomes the test data.

    Neither Original nor Retrain of this task sees them, and the real test data are not part of it. Of forgotten
    classes they are `forget_test`. Random samples to be forgotten stay as they are. Only `part` of each class's
    other training examples is used, so that a search costs less; validation data are as many as without.
    """
    if not 0 < share < 1:
        raise InputError(f"the validation share is {share:g}, expected above 0 and below 1")
    if not 0 < part <= 1:
        raise InputError(f"the part of the training data is {part:g}, expected above 0 and up to 1")
    number = kinds.derived_seed("validation", seed)
    retain, test = parted(task.retain, share, number)
    if task.scenario == "class":
        forget, forget_test = parted(task.forget, share, number)
    else:
        forget, forget_test = task.forget, task.retain.subset(torch.arange(0))
    if part < 1:
        retain, forget = (parted(split, part, kinds.derived_seed("part", seed))[1] for split in (retain, forget))
    return replace(task, retain=retain, test=test, forget=forget, forget_test=forget_test)


# Proposals that are made at once, however many workers there are, so that the search does not depend on them.
AT_ONCE = 4
TASK = "tuned"


@dataclass(frozen=True)
class Range:
    """The range that one field is drawn from, log-uniformly: ten epochs rather than nine say little.

    Numbers that are not whole have one digit, as the paper's learning rates: 1e-5, 2e-5, ..., 9e-3, 1e-2.
    """

    low: float
    high: float
    whole: bool
    own: float | None = None  # the method's value, which need not be one of the grid's

    def holds(self, value: float | None) -> bool:
        """True if a search may try this value; None, a value that the method works out itself, is not tried."""
        return value is not None and self.low <= value <= self.high

    def drawn(self, trial: Any, name: str) -> float:
        if self.whole:
            return int(trial.suggest_int(name, int(self.low), int(self.high), log=True))
        value = float(trial.suggest_float(name, self.low, self.high, log=True))
        return value if value == self.own else min(max(float(f"{value:.0e}"), self.low), self.high)


def shortfall(values: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """The sum of what UA and TA lack of being acceptable; 0 where both are at most a point below Retrain's.

    Where Retrain itself answers, as on random samples, UA may not be more than a point above its either. IDI is never
    looked at.

    Args:
        values: UA and TA of a model.
        reference: Those of Retrain.
    """
    below = {name: reference[name] - values[name] for name in ("UA", "TA")}
    if reference["UA"] < 1 - POINT:
        below["UA"] = abs(below["UA"])
    # Beyond what float arithmetic leaves of a point: 1 - 0.99 is not quite 0.01.
    return sum(lack for each in below.values() if (lack := each - POINT) > 1e-9)


def ranges(
    method: Unlearner, epochs: int | None = None, low: float | None = None, high: float | None = None
) -> dict[str, Range]:
    """The range of each field that is tuned, of our methods epochs and learning rates, widened to hold the method's own value.

    Args:
        method: The method.
        epochs: Maximum of epochs; None leaves it to the field.
        low, high: Bounds of the others; None leaves them to the field.
    """
    by_field = {}
    for name, each in described(type(method)).items():
        if each.setting.tune is None:
            continue
        own = getattr(method, name)
        least, most = each.setting.tune
        if own is not None:
            least, most = min(least, own), max(most, own)
        given = (None, epochs) if each.whole else (low, high)
        least, most = (
            wanted if wanted is not None else bound for bound, wanted in zip((least, most), given, strict=True)
        )
        by_field[name] = Range(least, most, each.whole, own)
    for name, of_field in by_field.items():
        if not 0 < of_field.low <= of_field.high:
            raise InputError(
                f"{name} would be drawn from {of_field.low:g} to {of_field.high:g}; "
                "give --low and --high with 0 < low <= high, and at least one epoch"
            )
    if not by_field:
        raise InputError(f"{method.label} has neither epochs nor a learning rate to be tuned; choose another method")
    return by_field


@dataclass(frozen=True)
class Start:
    """Original and Retrain are trained, from `network` (arguments of `networks.build`) by `pretraining`."""

    network: Mapping[str, Any]
    pretraining: Pretraining


@dataclass(frozen=True, eq=False)
class Given:
    """Original is given, and so are the UA and TA of Retrain, both without the validation data."""

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
    """The trials of a search for the method's settings, best first.

    The method's own values come first, where they are in range: nobody should end with less. The others are drawn by
    Optuna's TPE. Finished trials are kept in `out`, and `out/records` has a record of the search.

    Args:
        method, task: The method and the forgetting task.
        start: Training of Original and Retrain, or an Original with the UA and TA of its Retrain.
        out: Folder of the store and of the record.
        trials: Number of choices.
        epochs: Maximum of fields that are whole numbers; None leaves it to the field.
        low, high: Bounds of the other fields.
        seed: Seed of Original and of the search.
        validation: Fraction of the training data that no model sees, on which TA is read.
        part: Fraction of the other training data that is used.
        choices: Choices to try instead of new ones: the best of an earlier search on less data.
        measure: Reads, after the search, the IDI of all acceptable choices.
        scale: Name of the scale, for the record.
        report: Called with each trial.
        how: Fields of `executors.How`: jobs, device, tell, ...
    """
    _check(trials, measure, start)
    drawn_from = ranges(method, epochs, low, high)
    search = None if choices is not None else _search(method, drawn_from, seed)
    task = validation_task(task, validation, part=part)
    # Progress is out of all cells that the search will make, not of those that are asked for so far; IDI comes on top.
    options, total = How(**how), trials + (3 if isinstance(start, Start) else 0)
    count = options.progress
    options = replace(options, progress=lambda step: count(replace(step, total=max(total, step.total))))
    context = kinds.Context({TASK: task}, options.device, original=getattr(start, "original", None))
    with computing(Path(out), context, options) as compute:
        trying = _Trials(method, start, seed, compute, keep=measure is not None, report=report)
        every = trying(choices) if choices is not None else _searched(search, trying, drawn_from, trials)
        tried = sorted((trial for trial in every if trial is not None), key=_order)
        tried = tried if measure is None else trying.read(tried, measure)
    setting = Setting(scale=scale, network=dict(trying.network), task=TaskFacts(**task.manifest()))
    if tried:
        search_record(method, tried, setting, trying.aim, seed, options.command).write(Path(out) / "records")
    for name, why in trying.failures.items():
        options.tell(f"{name} failed: {why}; the same command tries it again")
    return tried


def _check(trials: int, measure: InformationCurve | None, start: Start | Given) -> None:
    if trials < 1:
        raise InputError(f"{trials} trials were asked for, but a search needs at least one; write 1 or more")
    if measure is not None and isinstance(start, Given):
        raise InputError("IDI of settings needs Retrain itself; let Original and Retrain be trained")


def _searched(search: Any, trying: _Trials, drawn_from: Mapping[str, Range], trials: int) -> Iterator[Trial | None]:
    """The trials of so many proposals, a few at a time, in the order in which they were made."""
    from optuna.trial import TrialState

    for first in range(0, trials, AT_ONCE):
        some = [search.ask() for _ in range(min(AT_ONCE, trials - first))]
        fields = [{name: each.drawn(one, name) for name, each in drawn_from.items()} for one in some]
        for one, trial in zip(some, trying(fields), strict=True):
            if trial is None:
                search.tell(one, state=TrialState.FAIL)
            else:
                search.tell(one, trial.shortfall)
            yield trial


class _Trials:
    """Makes choices into cells and cells into trials; those of earlier calls stay part of the run."""

    def __init__(
        self,
        method: Unlearner,
        start: Start | Given,
        seed: int,
        compute: Compute,
        keep: bool,
        report: Callable[[Trial], None],
    ) -> None:
        self.method, self.seed, self.compute, self.keep, self.report = method, seed, compute, keep, report
        self.failures: dict[str, str] = {}
        self._tried = 0
        self._cells: list[kinds.Cell] = []
        self._parents: tuple[kinds.Training, ...] = ()
        if isinstance(start, Given):
            self.network = start.original.architecture
            self._weights: str | None = weights_digest(start.original)
            self.aim = start.reference
            return
        self.network, self._weights = dict(start.network), None
        self.aim = self._reached(start)

    def _reached(self, start: Start) -> Mapping[str, float]:
        """Train Original and Retrain; UA and TA of the latter."""
        name, seed = f"seed{self.seed}-retrain", kinds.train_seed(self.seed)
        training = kinds.Training(f"seed{seed}-training", TASK, start.network, start.pretraining, seed)
        retrain = Retrain(start.pretraining)
        made = kinds.Unlearning(name, TASK, start.network, retrain, kinds.scratch_seed(seed), ())
        accuracy = kinds.Measurement(f"{name}/accuracy", Accuracy(), made)
        self._parents, self._cells, self._retrain = (training,), [training, made, accuracy], made
        run = self.compute(self._cells)
        for cell, why in run.failures.items():
            raise InputError(f"{cell.name}: {why}")
        reached: Mapping[str, float] = run.results[accuracy].values["values"]
        return reached

    def __call__(self, choices: Sequence[dict[str, Any]]) -> Iterator[Trial | None]:
        """The trial of each choice, reported; None where it failed otherwise than by diverging."""
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
            trial = Trial(number, fields, shortfall(values, self.aim) if values else WORST, values)
            self.report(trial)
            yield trial

    def read(self, tried: list[Trial], measure: InformationCurve) -> list[Trial]:
        """The trials, the acceptable ones with their IDI."""
        seed = kinds.unlearn_seed(self.seed)
        rows = {"original": kinds.Unlearning(f"seed{self.seed}-original", TASK, self.network, Original(), seed, self._parents),
                "retrain": self._retrain}  # fmt: skip
        rows |= {str(trial.number): self._cell(trial.number, trial.fields) for trial in acceptable(tried)}
        asked = {key: kinds.Measurement(f"{row.name}/{measure.label}", measure, row) for key, row in rows.items()}
        run = self.compute([*self._cells, *rows.values(), *asked.values()])
        self.failures |= {cell.name: why for cell, why in run.failures.items()}
        curves = {
            key: reading_of(run.results[cell], run.store)
            for key, cell in asked.items()
            if cell in run.results and "refused" not in run.results[cell].values
        }
        values = idi_of(curves)
        return [replace(trial, idi=values.get(str(trial.number))) for trial in tried]

    def _cell(self, number: int, fields: dict[str, Any]) -> Trying:
        name = f"seed{self.seed}-{slug(self.method.label)}-trial{number}"
        chosen = replace(self.method, **fields)  # type: ignore[type-var]
        seed = kinds.unlearn_seed(self.seed)
        return Trying(name, TASK, self.network, chosen, seed, self._parents, weights=self._weights, keep=self.keep)


def _search(method: Unlearner, drawn_from: Mapping[str, Range], seed: int) -> Any:
    """An Optuna study in memory, whose first choice are the method's own values, where they are in range.

    It learns from the first few at once: many searches are short, and Optuna's ten random choices would be all of them.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError("tuning needs Optuna; install it with: pip install 'residua[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(
        seed=kinds.derived_seed("search", kinds.train_seed(seed)) % 2**32, n_startup_trials=AT_ONCE
    )
    search = optuna.create_study(sampler=sampler)
    own = {name: getattr(method, name) for name in drawn_from}
    if all(drawn_from[name].holds(value) for name, value in own.items()):
        search.enqueue_trial(own)
    return search


@dataclass(frozen=True, eq=False)
class Trying(kinds.Unlearning):
    """An unlearning whose UA and TA are read at once; `weights` are those of an Original that was not trained here.

    That a choice diverges is an answer, and as lasting as any other. The model is kept only where `keep` says so: most
    choices are never looked at again. What is measured of one that was not kept makes it again.
    """

    kind: ClassVar[str] = "trial"

    weights: str | None = None
    keep: bool = field(default=False, kw_only=True)

    def inputs(self, context: kinds.Context, parents: Sequence[Result]) -> dict[str, Any]:
        about = super().inputs(context, parents) | {"read": [kinds.REVISIONS["measure"], 2]}
        return about if self.weights is None else about | {"original": self.weights}

    def run(self, context: kinds.Context, store: Store, parents: Sequence[Result]) -> kinds.Output:
        task = context.tasks[self.task]
        try:
            model, spent = self.make(context, store, parents)
        except Diverged as error:
            return kinds.Output({"values": {}, "diverged": str(error)})
        # RA is not looked at, and of the three it costs the most.
        values = accuracies({"forget": accuracy(model, task.forget), "test": accuracy(model, task.test)})
        return kinds.Output(kinds.kept(store, model, keep=self.keep) | {"values": values, "RTE": spent})

    def original(self, context: kinds.Context, store: Store, parents: Sequence[Result]) -> Classifier:
        return super().original(context, store, parents) if context.original is None else context.original


# Shortfall of a run that diverged; none is larger.
WORST = 2.0
# UA and TA may be one point below Retrain's.
POINT = 0.01
LABEL = "search"


@dataclass(frozen=True)
class Trial:
    """One choice of fields and its outcome; `values` are empty where it diverged."""

    number: int
    fields: dict[str, Any]
    shortfall: float
    values: dict[str, float]
    idi: float | None = None  # read after the search, where it was asked for


def acceptable(tried: Sequence[Trial]) -> list[Trial]:
    """The trials that lack nothing."""
    return [trial for trial in tried if trial.values and trial.shortfall == 0]


def _order(trial: Trial) -> tuple[float, bool, int]:
    """Trials by shortfall, the least first; of equals those without a phase of one epoch, which noise may have brought there, then the earlier."""
    hasty = any(value == 1 for name, value in trial.fields.items() if "epochs" in name)
    return trial.shortfall, hasty, trial.number


def idi_of(curves: Mapping[str, Reading]) -> dict[str, float]:
    """IDI of each curve but `original` and `retrain`, which are 1 and 0; those that are undetermined are left out."""
    ends = {"original", "retrain"}
    if not ends <= curves.keys():
        return {}
    original, reference = (cast(Curve, curves[end]) for end in ("original", "retrain"))
    read = {
        key: idi_value(cast(Curve, curve), original=original, reference=reference)
        for key, curve in curves.items()
        if key not in ends
    }
    return {key: value for key, value in read.items() if value is not None}


def search_name(method: Any, seed: int) -> str:
    """The name of the record of a search."""
    return f"search-seed{seed}-{slug(method.label)}"


def search_record(
    method: Any, tried: Sequence[Trial], setting: Setting, aim: Mapping[str, float], seed: int, command: str
) -> Record:
    """Everything that was tried: fields, UA and TA of each trial in the order of the search.

    `readings` has the best, Retrain's UA and TA, and how many were tried. The method's fields are the best's.
    """
    in_order = sorted(tried, key=lambda trial: trial.number)
    best = min(tried, key=_order)
    missing = float("nan")
    arrays = {
        "number": np.array([trial.number for trial in in_order]),
        **{name: np.array([trial.values.get(name, missing) for trial in in_order]) for name in ("UA", "TA")},
        **{f"field {name}": np.array([trial.fields[name] for trial in in_order]) for name in best.fields},
    }
    if any(trial.idi is not None for trial in in_order):
        arrays["IDI"] = np.array([missing if trial.idi is None else trial.idi for trial in in_order])
    values = {
        "shortfall": best.shortfall,
        "acceptable": len(acceptable(tried)),
        "trials": len(tried),
        **{f"Retrain.{n}": float(aim[n]) for n in ("UA", "TA")},
    }
    whole = describe(replace(method, **best.fields))
    return recorded(
        search_name(method, seed),
        [Taken(_Search(), Reading(values | best.values, arrays))],
        method=MethodFacts(**whole),
        setting=setting,
        seeds={"training": seed},
        command=command,
    )


@dataclass(frozen=True)
class _Search:
    """The search, as a record keeps a measure."""

    label = LABEL


def _tried(record: Record) -> list[Trial]:
    """The trials of a search in the order of their record, judged by the present rule."""
    read = record.read_with(LABEL)
    arrays, aim = read.arrays, {name: read.values[f"Retrain.{name}"] for name in ("UA", "TA")}
    names = [name for name in arrays if name.startswith("field ")]
    tried = []
    for place, (ua, ta) in enumerate(zip(arrays["UA"], arrays["TA"], strict=True)):
        values = {} if np.isnan(ta) else {"UA": float(ua), "TA": float(ta)}
        fields = {name.removeprefix("field "): arrays[name][place].item() for name in names}
        idi = arrays["IDI"][place] if "IDI" in arrays else np.nan
        lack = shortfall(values, aim) if values else WORST
        tried.append(Trial(place, fields, lack, values, None if np.isnan(idi) else float(idi)))
    return tried


def best_choices(record: Record, method: Unlearner, number: int) -> list[dict[str, Any]]:
    """The fields of the `number` best trials of an earlier search, best first; those that diverged are none."""
    if LABEL not in record.readings or record.method.label != method.label:
        raise InputError(
            f"{record.name} is not a search of {method.label}; give the record that residua tune wrote, or its folder"
        )
    arrays = record.read_with(LABEL).arrays
    names = {name.removeprefix("field ") for name in arrays if name.startswith("field ")}
    notes = {name: each.setting for name, each in described(type(method)).items() if each.setting.tune}
    if not {"UA", "TA"} <= arrays.keys() or not names or not notes.keys() >= names:
        raise InputError(
            f"{record.name} does not hold the choices of a search of {method.label} by its settings "
            f"{', '.join(notes)}; search again"
        )
    known = [trial for trial in _tried(record) if trial.values and np.isfinite(trial.shortfall)]
    if not known:
        raise InputError(f"every choice of {record.name} diverged; search {method.label} again with lower rates")
    best = [trial.fields for trial in sorted(known, key=_order)[:number]]
    for name in names:
        if refused := list(filter(None, (notes[name].refusal(fields[name]) for fields in best))):
            raise InputError(f"{record.name} has a field {name} that is not {refused[0]}; search again")
    return best


@dataclass(frozen=True)
class SettingsRange:
    """A method's IDI over all acceptable settings: from the least to the most, of how many; None where it was not read."""

    method: str
    trials: int
    acceptable: int
    read: int
    low: float | None
    high: float | None


def idi_range(record: Record) -> SettingsRange | None:
    """From the record of a search; None for any other record."""
    if LABEL not in record.readings:
        return None
    tried = _tried(record)
    fit = acceptable(tried)
    read = [trial.idi for trial in fit if trial.idi is not None]
    low, high = min(read, default=None), max(read, default=None)
    return SettingsRange(record.method.label, len(tried), len(fit), len(read), low, high)
