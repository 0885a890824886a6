"""Nested values: where two trees of plain values differ."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
        for difference in differences(
            one, other, tolerance=tolerance, place=f"{place}.{name}" if place else str(name)
        )
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
