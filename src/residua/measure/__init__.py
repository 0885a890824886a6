"""Measures: one file per question asked of one model. Adding one is one file and one line here."""

from __future__ import annotations

from typing import Protocol

from residua.classifier import Classifier
from residua.measure.accuracy import Accuracy
from residua.measure.information_curve import InformationCurve
from residua.reading import Reading
from residua.task import ForgetTask

__all__ = ["MEASURES", "Accuracy", "InformationCurve", "Measure"]


class Measure(Protocol):
    """A frozen dataclass whose fields are settings and whose call reads one model."""

    label: str

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading: ...


MEASURES: tuple[type[Measure], ...] = (Accuracy, InformationCurve)
