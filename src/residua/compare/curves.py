"""Curves to and from records, so that they can be compared long after they were measured."""

from __future__ import annotations

from typing import Any

from residua.curve import Curve
from residua.errors import InputError
from residua.record import Record

KEY = "information"


def curve_fields(curve: Curve) -> dict[str, Any]:
    """What a record keeps of a curve: pass these on to `Record(...)`."""
    return {
        "readings": {KEY: dict(curve.values)},
        "measures": {KEY: dict(curve.about)},
        "arrays": {f"{KEY}.{name}": array for name, array in curve.arrays.items()},
    }


def curve_of(record: Record) -> Curve:
    """The curve that a record keeps."""
    if KEY not in record.readings:
        raise InputError(f"record {record.name} holds no information curve; measure one first")
    arrays = {
        name.removeprefix(f"{KEY}."): array
        for name, array in record.arrays.items()
        if name.startswith(f"{KEY}.")
    }
    return Curve(record.readings[KEY], arrays, record.measures[KEY])
