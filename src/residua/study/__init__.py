"""Studies: everything that makes more than one model."""

from residua.study.calibrating import calibrate
from residua.study.definition import Row, Study
from residua.study.presets import controls, demonstration, methods_at
from residua.study.schedule import Finished, run
from residua.study.shadows import ulira
from residua.study.store import Store
from residua.study.tuning import tune

__all__ = [
    "Finished",
    "Row",
    "Store",
    "Study",
    "calibrate",
    "controls",
    "demonstration",
    "methods_at",
    "run",
    "tune",
    "ulira",
]
