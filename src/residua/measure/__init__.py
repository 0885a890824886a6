"""Measures of one model. Adding one is a class, one line here, and its metrics in `metrics.json`."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from residua import plugins
from residua.data.task import ForgetTask
from residua.measure.accuracy import Accuracy, ClassAccuracy, Perturbed
from residua.measure.information.curve import InformationCurve
from residua.measure.information.moved import Moved
from residua.measure.membership import LogOdds, Membership, WhiteBoxMembership
from residua.measure.probe import Probe, Recovery
from residua.measure.representation import Embedding, ForgetOutputs, Representation
from residua.measure.stress import Relearning, Stress
from residua.measure.structure import Structure, WeightSketch
from residua.models.classifier import Classifier
from residua.readings import Reading

__all__ = [
    "MEASURES",
    "Accuracy",
    "ClassAccuracy",
    "Embedding",
    "ForgetOutputs",
    "InformationCurve",
    "LogOdds",
    "Measure",
    "Membership",
    "Moved",
    "Perturbed",
    "Probe",
    "Recovery",
    "Relearning",
    "Representation",
    "Stress",
    "Structure",
    "WeightSketch",
    "WhiteBoxMembership",
    "measures",
]


class Measure(Protocol):
    """A frozen dataclass whose fields are settings and whose call reads one model."""

    label: str

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading: ...


MEASURES: tuple[type[Measure], ...] = (
    # from outputs
    Accuracy,
    ClassAccuracy,
    Membership,
    ForgetOutputs,
    Perturbed,
    LogOdds,
    Relearning,
    # from the inside
    Recovery,
    Probe,
    Stress,
    WhiteBoxMembership,
    Representation,
    WeightSketch,
    Embedding,
    Structure,
    InformationCurve,
    Moved,
)


def measures() -> dict[str, type[Measure]]:
    """Every measure by its label: ours, and those of installed packages and plain files (see `residua.plugins`)."""
    ours = {measure.label: measure for measure in MEASURES}
    known = {label.lower() for label in ours}
    theirs = plugins.discover(
        "residua.measures",
        taken=lambda label: label.lower() in known,
        fit=lambda thing: isinstance(thing, type) and dataclasses.is_dataclass(thing),
    )
    return ours | theirs
