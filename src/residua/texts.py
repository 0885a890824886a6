"""Texts: durations as people write them, and labels as file names."""

from __future__ import annotations

import re

from residua.errors import InputError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(duration: str, option: str = "--budget") -> float:
    """Seconds of `90`, `90s`, `10m`, `1.5h` or `3d`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd]?)", duration.strip(), re.ASCII)
    if match is None or float(match[1]) == 0:
        raise InputError(f"{option} {duration!r} is not a duration; write 90s, 10m, 2h or 3d")
    return float(match[1]) * UNITS[match[2] or "s"]


def duration(seconds: float) -> str:
    """A number of seconds in the largest unit of which there are at least two."""
    unit = next((unit for unit in "dhm" if seconds >= 2 * UNITS[unit]), "s")
    number = seconds / UNITS[unit]
    return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"


def slug(label: str) -> str:
    """A label as the name of a file or a record: COLA+ becomes cola-plus, FT* ft-star, `my model.v2` my-model.v2."""
    spelt = label.lower().replace("+", " plus").replace("*", " star")
    name = re.sub(r"[^a-z0-9._-]+", "-", spelt)
    return name.strip("-._") or "model"
