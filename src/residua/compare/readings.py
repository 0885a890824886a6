"""Readings to and from records, so that models can be compared long after they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.curve import Curve
from residua.reading import Reading
from residua.record import Record


def reading_fields(
    readings: Mapping[str, Reading], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What a record keeps of readings by their measure's label: pass these on to `Record(...)`.

    `settings` are the measures' own (`record.describe`). A curve brings its own, with what it was
    measured on. Reasons for missing values stand beside the settings.
    """
    kept: dict[str, Any] = {"readings": {}, "measures": {}, "arrays": {}}
    for label, reading in readings.items():
        about = dict(reading.about) if isinstance(reading, Curve) else dict(settings[label])
        kept["readings"][label] = dict(reading.values)
        kept["measures"][label] = about | ({"notes": dict(reading.notes)} if reading.notes else {})
        kept["arrays"] |= {f"{label}.{name}": array for name, array in reading.arrays.items()}
    return kept


def readings_of(record: Record) -> dict[str, Reading]:
    """The readings that a record keeps, by their measure's label."""
    found: dict[str, Reading] = {}
    for label, values in record.readings.items():
        about = dict(record.measures.get(label, {}))
        notes = about.pop("notes", {})
        arrays = {
            name.removeprefix(f"{label}."): array
            for name, array in record.arrays.items()
            if name.startswith(f"{label}.")
        }
        if label == "information":
            found[label] = Curve(values, arrays, about, notes=notes)
        else:
            found[label] = Reading(values, arrays, notes=notes)
    return found
