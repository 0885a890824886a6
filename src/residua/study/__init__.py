"""Studies: everything that makes more than one model.

Names are imported when they are first used: a worker process that needs no PyTorch starts in a tenth of the time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residua.study.attacking import ulira
    from residua.study.calibrating import calibrate
    from residua.study.cataloguing import catalogue, demonstration
    from residua.study.conducting import Finished, run
    from residua.study.controlling import controls
    from residua.study.definition import Row, Study
    from residua.study.presets import every_method, methods_at
    from residua.study.store import Store
    from residua.study.tuning import tune

_PLACES = {
    "Finished": "conducting",
    "Row": "definition",
    "Store": "store",
    "Study": "definition",
    "calibrate": "calibrating",
    "catalogue": "cataloguing",
    "controls": "controlling",
    "demonstration": "cataloguing",
    "every_method": "presets",
    "methods_at": "presets",
    "run": "conducting",
    "tune": "tuning",
    "ulira": "attacking",
}

__all__ = [
    "Finished",
    "Row",
    "Store",
    "Study",
    "calibrate",
    "catalogue",
    "controls",
    "demonstration",
    "every_method",
    "methods_at",
    "run",
    "tune",
    "ulira",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'residua.study' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"residua.study.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
