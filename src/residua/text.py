"""Text: JSON, whole numbers, durations, labels as file names, and the differences between two trees of plain values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from residua.errors import InputError


def from_json(text: str | bytes) -> Any:
    """The values in JSON that anybody may have written; ValueError for everything that is not JSON.

    NaN and numbers beyond all floating-point ones are not, nor is what is nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits[:20])


def whole_number(word: str) -> int | None:
    """The whole number from 0 up that a word is, in at most 18 digits; None for any other word, such as `²`."""
    return int(word) if re.fullmatch("[0-9]{1,18}", word) else None


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


def size_of(number: float) -> str:
    """A number of bytes in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def slug(label: str) -> str:
    """A label as the name of a file or a record: COLA+ becomes cola-plus, FT* ft-star, `my model.v2` my-model.v2."""
    spelt = label.lower().replace("+", " plus").replace("*", " star")
    name = re.sub(r"[^a-z0-9._-]+", "-", spelt)
    return name.strip("-._") or "model"


@dataclass(frozen=True)
class Difference:
    """A place, as names with dots between them, and what each side has there; None where it has nothing."""

    place: str
    left: Any
    right: Any

    def short(self) -> tuple[str, str]:
        """Both sides, cut to what fits into a sentence."""
        return _short(self.left), _short(self.right)


def differences(left: Any, right: Any, *, tolerance: float = 0.0, place: str = "") -> list[Difference]:
    """Every place where two trees differ. Numbers may differ by `tolerance`, as a share."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        names = [*right, *(name for name in left if name not in right)]
        pairs = [(name, left.get(name), right.get(name)) for name in names]
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = [(str(i), *both) for i, both in enumerate(zip(left, right, strict=True))]
    else:
        return [] if left == right or _near(left, right, tolerance) else [Difference(place, left, right)]
    return [
        difference
        for name, one, other in pairs
        for difference in differences(one, other, tolerance=tolerance, place=f"{place}.{name}" if place else str(name))
    ]


def _near(left: Any, right: Any, tolerance: float) -> bool:
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    try:
        return numbers and math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance * 1e-6)
    except OverflowError:  # a whole number beyond all floating-point ones
        return False


def _short(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
