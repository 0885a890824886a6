"""Searches: what was tried for a method, as a record; and the range of IDI over settings that UA and TA do not tell apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from residua.compare.shares import idi_value
from residua.errors import InputError
from residua.facts import MeasureFacts, MethodFacts, Setting
from residua.readings import Curve, Reading
from residua.record import Record, describe
from residua.texts import slug
from residua.training.settings import described
from residua.unlearn import Unlearner

# What a run that diverged is worth; no gap between shares is larger.
WORST = 2.0
# Settings whose gaps differ by no more than one point are as good as each other.
POINT = 0.01
LABEL = "search"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One choice of fields and what came of it; `values` are empty where it diverged."""

    number: int
    fields: dict[str, Any]
    gap: float
    values: dict[str, float]
    idi: float | None = None  # read after the search, where it was asked for


def near_best(tried: Sequence[Trial]) -> list[Trial]:
    """The trials whose gap is within one point of the least."""
    known = [trial for trial in tried if trial.values]
    least = min((trial.gap for trial in known), default=WORST)
    return [trial for trial in known if trial.gap <= least + POINT]


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
    """What the record of a search is called."""
    return f"search-seed{seed}-{slug(method.label)}"


def search_record(
    method: Any, tried: Sequence[Trial], setting: Setting, aim: Mapping[str, float], seed: int, command: str
) -> Record | None:
    """Everything that was tried: fields, UA, TA and gap of each trial in the order of the search; None if all failed.

    `readings` has the best, Retrain's UA and TA, and how many were tried. The method's fields are the best's.
    """
    if not tried:
        return None
    in_order = sorted(tried, key=lambda trial: trial.number)
    best = min(tried, key=lambda trial: trial.gap)
    missing = float("nan")
    arrays = {
        "number": np.array([trial.number for trial in in_order]),
        "gap": np.array([trial.gap for trial in in_order]),
        **{name: np.array([trial.values.get(name, missing) for trial in in_order]) for name in ("UA", "TA")},
        **{f"field {name}": np.array([trial.fields[name] for trial in in_order]) for name in best.fields},
    }
    if any(trial.idi is not None for trial in in_order):
        arrays["IDI"] = np.array([missing if trial.idi is None else trial.idi for trial in in_order])
    values = {"gap": best.gap, "trials": len(tried), **{f"Retrain.{n}": float(aim[n]) for n in ("UA", "TA")}}
    whole = describe(dataclasses.replace(method, **best.fields))
    return Record(
        name=search_name(method, seed),
        setting=setting,
        method=MethodFacts(**whole),
        measures={LABEL: MeasureFacts(label=LABEL)},
        seeds={"training": seed},
        readings={LABEL: values | best.values},
        command=command,
        arrays={f"{LABEL}.{name}": array for name, array in arrays.items()},
    )


def best_choices(record: Record, method: Unlearner, number: int) -> list[dict[str, Any]]:
    """The fields of the `number` best trials of an earlier search, best first; those that diverged are none."""
    if LABEL not in record.readings or record.method.label != method.label:
        raise InputError(
            f"{record.name} is not a search of {method.label}; give the record that residua tune wrote, or its folder"
        )
    arrays = record.read_with(LABEL).arrays
    names = [name for name in arrays if name.startswith("field ")]
    notes = {
        f"field {name}": field.setting
        for name, field in described(type(method)).items()
        if field.setting.tune
    }
    if not {"gap", "TA"} <= arrays.keys() or not names or not notes.keys() >= set(names):
        raise InputError(
            f"{record.name} does not hold the choices of a search of {method.label} by its settings "
            f"{', '.join(name.removeprefix('field ') for name in notes)}; search again"
        )
    gap = np.where(np.isnan(np.asarray(arrays["TA"], float)), np.inf, np.asarray(arrays["gap"], float))
    places = [place for place in np.argsort(gap, kind="stable")[:number] if np.isfinite(gap[place])]
    if not places:
        raise InputError(
            f"every choice of {record.name} diverged; search {method.label} again with lower rates"
        )
    for name in names:
        if not all(notes[name].allows(arrays[name][place].item()) for place in places):
            raise InputError(
                f"{record.name} has a {name} that is not {notes[name].expectation()}; search again"
            )
    return [{name.removeprefix("field "): arrays[name][place].item() for name in names} for place in places]


@dataclasses.dataclass(frozen=True)
class SettingsRange:
    """A method's IDI over all settings within one point of its best gap: from the least to the most, of how many."""

    method: str
    trials: int
    gap: float
    near: int
    low: float | None
    high: float | None
    chosen: float | None


def idi_range(record: Record) -> SettingsRange | None:
    """From the record of a search; None for any other record. IDI is None where it was not read."""
    if LABEL not in record.readings:
        return None
    arrays = record.read_with(LABEL).arrays
    gap, ta = (np.asarray(arrays[name], float) for name in ("gap", "TA"))
    known = ~np.isnan(ta)
    near = known & (gap <= gap[known].min(initial=WORST) + POINT)
    read = np.asarray(arrays.get("IDI", np.full(len(gap), np.nan)), float)
    values = read[near & ~np.isnan(read)]
    chosen = read[int(np.argmin(np.where(known, gap, np.inf)))]
    return SettingsRange(
        record.method.label,
        len(gap),
        float(gap.min()),
        int(near.sum()),
        float(values.min()) if len(values) else None,
        float(values.max()) if len(values) else None,
        None if np.isnan(chosen) else float(chosen),
    )
