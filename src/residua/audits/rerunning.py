"""Rerun: are the readings of a saved audit what the models and the data give?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError

from residua.audits.auditing import as_saved, draw_random, read_models, starting_at, train_proxies
from residua.audits.saved import Saved, records_of_saved
from residua.audits.verifying import SAME_MACHINE, TOLERANCE, read_records, read_report, verify
from residua.compare import IDI
from residua.compare.verdicts import VERDICT_READINGS, Word
from residua.data.task import ForgetTask
from residua.errors import InputError, first_line
from residua.measure import Measure, measures
from residua.measure._memo import clear_all
from residua.models.classifier import Classifier, weights_digest
from residua.record import Record, TaskFacts, software
from residua.report.audit import audit_report
from residua.roles import reference_role, references_in
from residua.training.pretraining import Pretraining


@dataclass(frozen=True)
class Rerun:
    """Result of measuring again.

    `found` is what does not hold, empty if all does. `moved` says how far each reading is from the
    record's, where it is not equal to the last bit; `equal` that all are, with the arrays behind them.
    """

    verdict: Word | None
    readings: int
    moved: dict[str, float]
    equal: bool
    found: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tolerance: float = 0.0


def rerun(
    folder: str | Path,
    *,
    original: object,
    unlearned: object,
    reference: object = None,
    init: object = None,
    task: ForgetTask | None = None,
    tolerance: float | None = None,
    files: Mapping[str, str] | None = None,
) -> Rerun:
    """Measure again what a saved audit has measured, and compare it with the records.

    The models (or what was saved of them) and the task must be those of the records, by their hashes; others are
    refused before anything is measured. A proxy is trained, and a random network drawn, as then. The same
    machine gives the same bits; on another one the verdict must be the same word.

    Args:
        folder: Folder of the saved audit.
        original: The model before unlearning, or what was saved of it.
        unlearned: The audited model, or what was saved of it.
        reference: The reference, or a list of them.
        init: The model that Original's training started from, if the audit had one.
        task: The data and the forget set; needed for models.
        tolerance: A reading x may be `tolerance` * max(1, |x|) away, an array as far in the mean. By default 0.0001
            where software and kind of processor are the records', and 0.02 elsewhere and on a GPU.
        files: SHA-256 of the files that the models were read from, by role, which must be the records' too.
    """
    folder = Path(folder)
    if unsound := verify(folder):
        return Rerun(None, 0, {}, False, unsound)
    report = read_report(folder)
    records = read_records(folder, report)
    models = _models(records, original=original, unlearned=unlearned, start=init, **_references(reference))
    notes: list[str] = []
    here = records["unlearned"].software == software()
    if tolerance is None:
        tolerance = SAME_MACHINE if here and "gpu" not in software() else TOLERANCE
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance}, expected 0 or more")
    remeasured = _measured_again(models, records, report.tier == "weights", task, notes)
    if unread := [role for role in models if records[role].method.file and role not in (files or {})]:
        notes.append(f"that the files of {' and '.join(unread)} are those of the records was not compared; give files=")
    again = audit_report(remeasured, rules=report.rules)
    known = _as_far_as_recorded(records, remeasured, notes)
    moved, found, n = _compare(records, known, tolerance)
    found += [] if report.tier == "weights" else _left_out(models, records)
    found += _other_files(models, records, files or {}) + array_moves(records, known, tolerance)
    found += _index_moves(report.idi, again.idi, tolerance)
    equal = not moved and not found and all(same_arrays(records[role], known[role]) for role in records)
    if again.verdict != report.verdict:
        found.append(f"the verdict is {report.verdict}, but the readings measured again give {again.verdict}")
    if not equal and here:
        notes.append(
            "software and kind of processor are those of the records, so equal bits were to be expected; "
            f"--tolerance {TOLERANCE:g} allows for another model of processor"
        )
    return Rerun(again.verdict, n, moved, equal, found, notes, tolerance)


def _other_files(models: Mapping[str, object], records: Mapping[str, Record], files: Mapping[str, str]) -> list[str]:
    """Models whose weights are the records', but in another file than the one that the record, and a statement, names."""
    found = []
    for role, record in records.items():
        named = record.method.file
        if named is not None and role not in models:
            found.append(f"the record of {role} names a file, {named[:12]}, but it was made for the audit")
        elif named is not None and files.get(role, named) != named:
            found.append(f"the file of {role} has the SHA-256 {files[role][:12]}, the record's is {named[:12]}")
    return found


def _measured_again(
    models: Mapping[str, object],
    records: Mapping[str, Record],
    weights: bool,
    task: ForgetTask | None,
    notes: list[str],
) -> dict[str, Record]:
    """Records of the same models, made again from weights or from what was saved; `notes` get what was not compared."""
    if not weights:
        saved = {role: _as_then(cast(Saved, as_saved(model)), records[role]) for role, model in models.items()}
        return records_of_saved(saved, seed=_seed(records))
    if task is None:
        raise InputError("an audit of models needs its task to be made again; give task=")
    then = records["unlearned"].setting.task or TaskFacts(splits={})
    task = task.thinned(then.part or 1.0)
    check_task(records["unlearned"], task)
    if then.mean is None:
        notes.append("the records do not say how images were normalised, so that was not compared")
    return _measure(cast(dict[str, Classifier], dict(models)), records, task, notes)


def _models(records: Mapping[str, Record], **given: object) -> dict[str, object]:
    """The models that were given, if they are those of the records."""
    models = {role: model for role, model in given.items() if model is not None}
    compared = ("original", "unlearned", *({"start"} & set(records)), *references_in(records))
    needed = [role for role in compared if records[role].method.proxy is None]
    if set(models) != set(needed):
        raise InputError(f"this audit is of {' and '.join(needed)}; give these models and no other")
    for role, model in models.items():
        check_model(records[role], model, f"the {role} model")
    return models


def _references(given: object) -> dict[str, object]:
    """The given references by role."""
    models = given if isinstance(given, list | tuple) else [given]
    return {reference_role(number): model for number, model in enumerate(models, start=1)}


def check_model(record: Record, model: object, named: str) -> None:
    """Refuse a model, or a saved file, that is not the record's; `named` is how the user knows it."""
    saved = as_saved(model)
    if record.method.saved:
        kinds = record.method.saved
        here = {} if saved is None else saved.digests()
    else:
        kinds = {"weights": str(record.method.weights)}
        here = {"weights": weights_digest(model)} if isinstance(model, Classifier) else {}
    if isinstance(model, Classifier):
        then, now = (network.get("cuts") for network in (record.setting.network or {}, model.architecture))
        if then != now:
            raise InputError(
                f"{named} is cut into blocks at {_at(now)}, but the {record.name} of the audit at {_at(then)}; give "
                "the same --cuts (in Python, cuts=)"
            )
    for kind, expected in kinds.items():
        if here.get(kind) != expected:
            what = f"its {kind} have the hash {here[kind][:12]}" if kind in here else f"it has no {kind}"
            raise InputError(
                f"{named} is not the {record.name} of the audit: {what}, the record's is {expected[:12]}; "
                "give the one that was audited"
            )


def _at(cuts: Any) -> str:
    return ", ".join(map(str, cuts)) if cuts else "no named submodules"


def check_task(record: Record, task: ForgetTask) -> None:
    """Refuse data, or a forget set, that is not the record's."""
    differences = TaskFacts(**task.manifest()).differs_from(record.setting.task or TaskFacts(splits={}))
    if differences:
        raise InputError(
            f"the task is not that of the audit: of {task.dataset} {', '.join(differences)} differ; give the same data, "
            "shown in the same size and normalisation, and the same forget set"
        )


def _measure(
    models: dict[str, Classifier], records: Mapping[str, Record], task: ForgetTask, notes: list[str]
) -> dict[str, Record]:
    """The same measures of the same models."""
    unlearned, seed = records["unlearned"], _seed(records)
    try:
        again = [_rebuilt_measure(label, unlearned) for label in unlearned.readings]
        proxy = records["reference"].method.proxy if "reference" in records else None
        share = 0.0 if proxy is None else proxy.share
        training = _rebuilt(Pretraining, {} if proxy is None else proxy.fields)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"the records do not hold what measuring again needs ({type(error).__name__}: {error}); make the audit again"
        ) from error
    made: list[str] = []
    if proxy is not None:
        made = references_in(records)
        before = starting_at(models["original"], models["start"]) if "start" in models else models["original"]
        models |= train_proxies(before, task, share, training, seed, len(made))
    elif "random" in records:
        made = ["random"]
        models["random"] = draw_random(models["original"], task, seed)
    if any(weights_digest(models[role]) != records[role].method.weights for role in made):
        what = "the random network that was drawn" if made == ["random"] else "the proxy that was trained"
        notes.append(f"{what} again has other weights than the record's, as another machine may give")
    clear_all()  # in the process of the audit, its own curves would be compared with themselves
    # What was refused for one of the models is refused again; what the verdict rests on never was.
    needed, beside = (
        [each for each in again if (each.label in VERDICT_READINGS["weights"]) == wanted] for wanted in (True, False)
    )
    return read_models({role: models[role] for role in records}, task, needed, beside, seed=seed)


def _seed(records: Mapping[str, Record]) -> int:
    return records["unlearned"].seeds.get("audit", 0)


def _rebuilt_measure(label: str, record: Record) -> Measure:
    known = measures()
    if label not in known:
        raise InputError(f"the audit holds a reading of {label}, which no measure here gives; install its package")
    return _rebuilt(known[label], record.measures[label].fields)


def _rebuilt(kind: Any, fields: Mapping[str, Any]) -> Any:
    """The dataclass whose settings a record describes; `added` are those of records from before a setting existed."""
    fields = getattr(kind, "added", {}) | dict(fields)
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    try:
        for name, hint in get_type_hints(kind).items():
            if name in settings:
                TypeAdapter(hint).validate_python(settings[name], strict=True)
        return kind(**settings)
    except (TypeError, ValidationError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else first_line(error)
        raise InputError(
            f"the settings of {kind.__name__} in the record are not those of this version ({why}); use the version "
            "that the record names under software"
        ) from error


def _left_out(models: Mapping[str, object], records: Mapping[str, Record]) -> list[str]:
    """Saved parts of a model that were not audited, though the report says that they were not given."""
    return [
        f"what was saved of {role} holds {kind} too, which the audit left out; give the file that was audited"
        for role, model in models.items()
        for kind in cast(Saved, as_saved(model)).digests()
        if kind not in records[role].method.saved
    ]


def _as_then(saved: Saved, record: Record) -> Saved:
    """The parts of what was saved that the audit used."""
    kinds = record.method.saved
    return Saved(
        outputs=saved.outputs if "outputs" in kinds else None, features=saved.features if "features" in kinds else None
    )


def _as_far_as_recorded(then: Mapping[str, Record], now: Mapping[str, Record], notes: list[str]) -> dict[str, Record]:
    """The new records without what none of the old ones holds: earlier versions did not measure it.

    Whoever takes it out of every record gains nothing by that: the verdict has to follow from the new records whole.
    """
    values = {(label, name) for each in then.values() for label, own in each.readings.items() for name in own}
    arrays = {name for each in then.values() for name in each.arrays}
    known, added = {}, set[str]()
    for role, record in now.items():
        added |= {f"{label} {name}" for label, own in record.readings.items() for name in own
                  if (label, name) not in values} | (record.arrays.keys() - arrays - NOT_COMPARED)  # fmt: skip
        known[role] = record.model_copy(
            update={
                "readings": {label: {name: value for name, value in own.items() if (label, name) in values}
                             for label, own in record.readings.items()},
                "arrays": {name: array for name, array in record.arrays.items() if name in arrays},
            }
        )  # fmt: skip
    if added:
        notes.append(f"the records hold no {', '.join(sorted(added))}, so that was not compared")
    return known


def _compare(
    then: Mapping[str, Record], now: Mapping[str, Record], tolerance: float
) -> tuple[dict[str, float], list[str], int]:
    moved: dict[str, float] = {}
    found: list[str] = []
    n = 0
    for role, record in then.items():
        for label in sorted(record.readings.keys() | now[role].readings.keys()):
            values, others = (each.readings.get(label, {}) for each in (record, now[role]))
            for name in sorted(values.keys() | others.keys()):
                n += 1
                what, old, new = f"{role} {label} {name}", values.get(name), others.get(name)
                if old is None or new is None:
                    found.append(f"{what} is {old}, but was measured again as {new}")
                elif old != new:
                    moved[what] = abs(new - old)
                    if not math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance):
                        found.append(f"{what} is {old:.6g}, but was measured again as {new:.6g}")
    return moved, found, n


def _index_moves(then: IDI | None, now: IDI | None, tolerance: float) -> list[str]:
    """An IDI outside of the interval that was reported: a ratio of few nats moves more than they do."""
    old, new = (None if part is None else part.value for part in (then, now))
    if old is None or new is None or then is None or then.interval is None:
        return [] if old == new else [f"the IDI is {old}, but was measured again as {new}"]
    low, high = then.interval
    if low - tolerance <= new <= high + tolerance:
        return []
    return [f"the IDI is {old:.6g} ({low:.6g} to {high:.6g}), but was measured again as {new:.6g}"]


# How long critics were fitted: another machine may take a round more, and no number in a report comes from it.
# Where points of a t-SNE picture are: its last digits grow from step to step, and the picture has no vote.
NOT_COMPARED = {"information.course", "tsne.coordinates"}


def array_moves(then: Mapping[str, Record], now: Mapping[str, Record], tolerance: float) -> list[str]:
    """Arrays that differ beyond the tolerance.

    Single entries move more between machines than their means do, and a verdict rests on means. So the distance of
    two arrays is the mean of |x - y| over the last axis, at most, as a fraction of the mean of |x| where that is above 1;
    of whole numbers and truth values, the fraction that differs.
    """
    moved = []
    for role, record in then.items():
        others = now[role].arrays
        for name in sorted((record.arrays.keys() | others.keys()) - NOT_COMPARED):
            where = f"array {name} of {role}"
            if name not in record.arrays or name not in others:
                moved.append(
                    f"{where} is {'missing' if name not in record.arrays else 'there'}, but measuring again "
                    f"{'gives it' if name in others else 'does not give it'}"
                )
                continue
            x, y = record.arrays[name], others[name]
            if x.shape != y.shape or x.dtype.kind != y.dtype.kind:
                moved.append(f"{where} is {x.dtype} {x.shape}, but was measured again as {y.dtype} {y.shape}")
            elif not (apart := distance(x, y)) <= tolerance:  # NaN is not close to anything
                moved.append(f"{where} was measured again as values that are {apart:.2g} away in the mean")
    return moved


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """Distance of two arrays of one shape, as `array_moves` defines it."""
    if not x.size or np.array_equal(x, y):
        return 0.0
    if x.dtype.kind not in "fc":
        return float((x != y).mean())
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    a, b = (np.atleast_1d(values).astype(wide) for values in (x, y))
    # Equal infinities are no distance apart.
    apart = np.where(a == b, 0.0, np.abs(a - b))
    size = np.where(np.isfinite(a), np.abs(a), 0.0)
    return float((apart.mean(axis=-1) / np.maximum(1.0, size.mean(axis=-1))).max())


def same_arrays(then: Record, now: Record) -> bool:
    """True if all arrays are equal to the last bit."""
    return then.arrays.keys() == now.arrays.keys() and all(
        np.array_equal(array, now.arrays[name]) for name, array in then.arrays.items()
    )
