"""Measures: one file per question asked of one model. Adding one is one file and one line here."""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from typing import Protocol

from residua.classifier import Classifier
from residua.errors import InputError
from residua.measure.accuracy import Accuracy
from residua.measure.class_accuracy import ClassAccuracy
from residua.measure.embedding import Embedding
from residua.measure.forget_outputs import ForgetOutputs
from residua.measure.information_curve import InformationCurve
from residua.measure.membership import Membership
from residua.measure.probe import Probe
from residua.measure.recovery import Recovery
from residua.measure.relearning import Relearning
from residua.measure.representation import Representation
from residua.measure.weights import WeightSketch
from residua.measure.white_box import WhiteBoxMembership
from residua.reading import Reading
from residua.task import ForgetTask

__all__ = [
    "MEASURES",
    "Accuracy",
    "ClassAccuracy",
    "Embedding",
    "ForgetOutputs",
    "InformationCurve",
    "Measure",
    "Membership",
    "Probe",
    "Recovery",
    "Relearning",
    "Representation",
    "WeightSketch",
    "WhiteBoxMembership",
    "measures",
]


class Measure(Protocol):
    """A frozen dataclass whose fields are settings and whose call reads one model."""

    label: str

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading: ...


MEASURES: tuple[type[Measure], ...] = (
    # what the model says
    Accuracy,
    ClassAccuracy,
    Membership,
    ForgetOutputs,
    Relearning,
    # what it knows
    Recovery,
    Probe,
    WhiteBoxMembership,
    Representation,
    WeightSketch,
    Embedding,
    InformationCurve,
)


def measures() -> dict[str, type[Measure]]:
    """Every measure by its label: ours, and those that installed packages name in the entry point group
    `residua.measures`."""
    found = {measure.label: measure for measure in MEASURES}
    for entry in entry_points(group="residua.measures"):
        try:
            measure = entry.load()
        except Exception as error:  # a stranger's module may fail in any way
            raise InputError(
                f"measure {entry.name} ({entry.value}) cannot be loaded ({error}); repair or uninstall its package"
            ) from error
        label = getattr(measure, "label", None)
        if not isinstance(label, str):
            raise InputError(
                f"measure {entry.name} ({entry.value}) has no label; make it a dataclass with one and a __call__"
            )
        fit = isinstance(measure, type) and dataclasses.is_dataclass(measure)
        if not fit:
            raise InputError(
                f"measure {entry.name} ({entry.value}) is not the class of a frozen dataclass; make it one"
            )
        if label.lower() in (name.lower() for name in found):
            raise InputError(f"measure {entry.name} ({entry.value}) takes the label {label}, which is in use")
        found[label] = measure
    return found
