"""Reading: what a measure found in one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Reading:
    """Named numbers, and the arrays behind them from which others can be computed later.

    A value is a finite number or it is not there, and then `notes` says why, under the same name.
    """

    values: Mapping[str, float]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict, kw_only=True)
