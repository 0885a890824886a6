"""Rerun: are the readings of a saved audit what the models and the data give?"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from residua.audit.evidence import draw_random, read_models, train_proxy
from residua.audit.saved import as_saved, read_saved
from residua.audit.verifying import read_records, read_report, verify
from residua.classifier import Classifier, weights_digest
from residua.compare.verdict import Word
from residua.errors import InputError
from residua.measure import Measure, measures
from residua.memo import clear_all
from residua.record import Record, software
from residua.report import audit_report
from residua.saved import Saved
from residua.task import ForgetTask
from residua.training import Pretraining

# One of fifty images that decides otherwise; curves move far less (docs/verdict.md).
TOLERANCE = 0.02


@dataclass(frozen=True)
class Rerun:
    """What measuring anew has shown.

    `found` is what does not hold, empty if all does. `moved` says how far each reading lies from the
    record's, where it is not equal to the last bit; `equal` that all are, with the arrays behind them.
    """

    verdict: Word | None
    readings: int
    moved: dict[str, float]
    equal: bool
    found: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rerun(
    folder: str | Path,
    *,
    original: object,
    unlearned: object,
    reference: object = None,
    task: ForgetTask | None = None,
    tolerance: float = TOLERANCE,
) -> Rerun:
    """Measure anew what a saved audit has measured, and compare it with the records.

    The models (or what was saved of them) and the task must be those of the records, by their hashes; others are
    refused before anything is measured. A proxy is trained, and a random network drawn, as then. The same
    machine gives the same bits; on another one a reading x may lie `tolerance` * max(1, |x|) away, and the verdict
    must be the same word.
    """
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance}, expected 0 or more")
    folder = Path(folder)
    unsound = verify(folder)
    if unsound:
        return Rerun(None, 0, {}, False, unsound)
    report, rules = read_report(folder)
    records = read_records(folder, report)
    given = {"original": original, "unlearned": unlearned, "reference": reference}
    models = {role: model for role, model in given.items() if model is not None}
    asked = [role for role in given if role in records and "proxy" not in records[role].method]
    if set(models) != set(asked):
        raise InputError(f"this audit is of {' and '.join(asked)}; give these models and no other")
    for role, model in models.items():
        check_model(records[role], model, f"the {role} model")
    notes: list[str] = []
    if report.tier == "weights":
        if task is None:
            raise InputError("an audit of models needs its task to be made again; give task=")
        check_task(records["unlearned"], task)
        anew = _measure(cast(dict[str, Classifier], models), records, task, notes)
    else:
        anew = read_saved(
            {role: _as_then(cast(Saved, as_saved(model)), records[role]) for role, model in models.items()},
            seed=_seed(records),
        )
    verdict = audit_report(anew, rules=rules, reasons=report.not_assessed).verdict
    moved, found, n = _compare(records, anew, tolerance)
    equal = not moved and not found and all(_same_arrays(records[role], anew[role]) for role in records)
    if verdict != report.verdict:
        found.append(f"the verdict is {report.verdict}, but the readings made anew give {verdict}")
    if not equal and records["unlearned"].software == software():
        notes.append(
            "software and kind of processor are those of the records, so equal bits were to be expected"
        )
    return Rerun(verdict, n, moved, equal, found, notes)


def check_model(record: Record, model: object, named: str) -> None:
    """Refuse a model, or a saved file, that is not the record's; `named` is how the user knows it."""
    saved = as_saved(model)
    if "saved" in record.method:
        kinds = record.method["saved"]
        here = {} if saved is None else saved.digests()
    else:
        kinds = {"weights": str(record.method.get("weights"))}
        here = {"weights": weights_digest(model)} if isinstance(model, Classifier) else {}
    if isinstance(model, Classifier) and kinds != here:
        then, now = (of.get("cuts") for of in (record.setting.get("network", {}), model.architecture))
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
    then, now = record.setting["task"], json.loads(json.dumps(task.manifest()))
    if then == now:
        return
    parts = [name for name, split in now["splits"].items() if split != then["splits"].get(name)]
    what = f"the splits {', '.join(parts)}" if parts else "name or classes"
    raise InputError(
        f"the task is not that of the audit: {what} of {task.dataset} differ; give the same data and the same forget set"
    )


def _measure(
    models: dict[str, Classifier], records: Mapping[str, Record], task: ForgetTask, notes: list[str]
) -> dict[str, Record]:
    """The same measures of the same models."""
    of, seed = records["unlearned"], _seed(records)
    try:
        again = [_rebuilt_measure(label, of) for label in of.readings]
        proxy = dict(records["reference"].method.get("proxy", {})) if "reference" in records else {}
        share = float(proxy.pop("share", 0))
        training = _rebuilt(Pretraining, proxy)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"the records do not hold what measuring anew needs ({type(error).__name__}: {error}); make the audit again"
        ) from error
    made = ""
    if "reference" in records and "reference" not in models:
        made = "reference"
        models["reference"] = train_proxy(models["original"], task, share, training, seed)
    elif "random" in records:
        made = "random"
        models["random"] = draw_random(models["original"], task, seed)
    if made and weights_digest(models[made]) != records[made].method.get("weights"):
        what = "the proxy that was trained" if made == "reference" else "the random network that was drawn"
        notes.append(f"{what} anew has other weights than the record's, as another machine may give")
    clear_all()  # in the process of the audit, its own curves would be compared with themselves
    return read_models({role: models[role] for role in records}, task, again, seed=seed)[0]


def _seed(records: Mapping[str, Record]) -> int:
    return records["unlearned"].seeds.get("audit", 0)


def _rebuilt_measure(label: str, record: Record) -> Measure:
    known = measures()
    if label not in known:
        raise InputError(
            f"the audit holds a reading of {label}, which no measure here gives; install its package"
        )
    about: dict[str, Any] = dict(record.measures[label])
    if label == "information":
        # A curve keeps the blocks that it was measured at, not how they were asked for.
        blocks = tuple(int(block) for block in record.arrays["information.blocks"])
        about = {name: value for name, value in about["measure"].items() if name != "last"}
        about["blocks"] = blocks
    return _rebuilt(known[label], about)


def _rebuilt(kind: Any, described: Mapping[str, Any]) -> Any:
    """The dataclass whose settings a record describes."""
    fields = {name: value for name, value in described.items() if name not in ("label", "class", "notes")}
    try:
        return kind(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        )
    except TypeError as error:
        raise InputError(
            f"the settings of {kind.__name__} in the record are not those of this version ({error}); use the version "
            "that the record names under software"
        ) from error


def _as_then(saved: Saved, record: Record) -> Saved:
    """What the audit used of it."""
    kinds = record.method["saved"]
    return Saved(
        outputs=saved.outputs if "outputs" in kinds else None,
        features=saved.features if "features" in kinds else None,
    )


def _compare(
    then: Mapping[str, Record], now: Mapping[str, Record], tolerance: float
) -> tuple[dict[str, float], list[str], int]:
    moved: dict[str, float] = {}
    found: list[str] = []
    n = 0
    for role, record in then.items():
        for label, values in record.readings.items():
            anew = now[role].readings[label]
            for name in sorted(values.keys() | anew.keys()):
                n += 1
                what, old, new = f"{role} {label} {name}", values.get(name), anew.get(name)
                if old is None or new is None:
                    found.append(f"{what} is {old}, but was measured anew as {new}")
                elif old != new:
                    moved[what] = abs(new - old)
                    if not math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance):
                        found.append(f"{what} is {old:.6g}, but was measured anew as {new:.6g}")
    return moved, found, n


def _same_arrays(then: Record, now: Record) -> bool:
    return then.arrays.keys() == now.arrays.keys() and all(
        np.array_equal(array, now.arrays[name]) for name, array in then.arrays.items()
    )
