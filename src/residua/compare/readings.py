"""Readings from records, so that models can be compared long after they were measured."""

from __future__ import annotations

from collections.abc import Mapping

from residua.errors import InputError
from residua.readings import Curve, Reading
from residua.record import Record


def readings_of(record: Record) -> dict[str, Reading]:
    """The readings that a record keeps, by their measure's label."""
    return {label: record.read_with(label) for label in record.readings}


def curve_in(readings: Mapping[str, Reading]) -> Curve | None:
    """The information curve among the readings of one model, whatever its measure is called."""
    return next((reading for reading in readings.values() if isinstance(reading, Curve)), None)


def curve_of(record: Record) -> Curve:
    """The information curve that a record keeps."""
    curve = curve_in(readings_of(record))
    if curve is None:
        raise InputError(f"record {record.name} holds no information curve; measure one first")
    return curve
