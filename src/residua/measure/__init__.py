"""Measures: one file per question asked of one model. Adding one is one file and one line here."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from residua import plugins
from residua.data.task import ForgetTask
from residua.measure.accuracy import Accuracy
from residua.measure.class_accuracy import ClassAccuracy
from residua.measure.embedding import Embedding
from residua.measure.forget_outputs import ForgetOutputs
from residua.measure.information.curve import InformationCurve
from residua.measure.membership import Membership
from residua.measure.perturbed import Perturbed
from residua.measure.probe import Probe
from residua.measure.recovery import Recovery
from residua.measure.relearning import Relearning
from residua.measure.representation import Representation
from residua.measure.stress import Stress
from residua.measure.weights import WeightSketch
from residua.measure.white_box import WhiteBoxMembership
from residua.models.classifier import Classifier
from residua.readings import Reading

__all__ = [
    "MEASURES",
    "Accuracy",
    "ClassAccuracy",
    "Embedding",
    "ForgetOutputs",
    "InformationCurve",
    "Measure",
    "Membership",
    "Perturbed",
    "Probe",
    "Recovery",
    "Relearning",
    "Representation",
    "Stress",
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
    Perturbed,
    Relearning,
    # what it knows
    Recovery,
    Probe,
    Stress,
    WhiteBoxMembership,
    Representation,
    WeightSketch,
    Embedding,
    InformationCurve,
)


def measures() -> dict[str, type[Measure]]:
    """Every measure by its label: ours, and those of installed packages and plain files (see `residua.plugins`)."""
    ours = {measure.label: measure for measure in MEASURES}
    known = {label.lower() for label in ours}
    theirs = plugins.brought(
        "residua.measures",
        taken=lambda label: label.lower() in known,
        fit=lambda thing: isinstance(thing, type) and dataclasses.is_dataclass(thing),
    )
    return ours | theirs
