"""Ways to unlearn, in the paper's order. Adding one is one file and one line here."""

from __future__ import annotations

import dataclasses
import re
from importlib.metadata import entry_points
from typing import Any, Protocol

from residua.classifier import Classifier
from residua.errors import InputError
from residua.task import ForgetTask
from residua.unlearn.bad_teacher import BadTeacher
from residua.unlearn.boundary import BoundaryExpand, BoundaryShrink
from residua.unlearn.cola import Cola, ColaPlus
from residua.unlearn.fine_tune import FineTune
from residua.unlearn.gradient_ascent import GradientAscent
from residua.unlearn.head_distillation import HeadDistillation
from residua.unlearn.l1_sparse import L1Sparse
from residua.unlearn.last_layers import CatastrophicLast, ExactLast
from residua.unlearn.original import Original
from residua.unlearn.random import Random
from residua.unlearn.random_label import RandomLabel
from residua.unlearn.retrain import Retrain
from residua.unlearn.saliency import Saliency
from residua.unlearn.scrub import Scrub
from residua.unlearn.synaptic_dampening import SynapticDampening
from residua.unlearn.unsir import Unsir

__all__ = [
    "METHODS",
    "BadTeacher",
    "BoundaryExpand",
    "BoundaryShrink",
    "CatastrophicLast",
    "Cola",
    "ColaPlus",
    "ExactLast",
    "FineTune",
    "GradientAscent",
    "HeadDistillation",
    "L1Sparse",
    "Original",
    "Random",
    "RandomLabel",
    "Retrain",
    "Saliency",
    "Scrub",
    "SynapticDampening",
    "Unlearner",
    "Unsir",
    "find",
    "methods",
]


class Unlearner(Protocol):
    """A frozen dataclass whose fields are hyperparameters and whose call makes one model of another.

    `original` is never changed. Randomness comes from PyTorch's global generator, which the
    caller seeds.
    """

    @property
    def label(self) -> str:
        """What the paper prints."""

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier: ...


# The rows of the paper's tables, then those that it only cites.
METHODS: tuple[Unlearner, ...] = (
    Original(),
    Retrain(),
    Random(),
    HeadDistillation(),
    FineTune(),
    RandomLabel(),
    GradientAscent(),
    BadTeacher(),
    ExactLast(k=5),
    CatastrophicLast(k=5),
    ExactLast(k=10),
    CatastrophicLast(k=10),
    Scrub(),
    Saliency(),
    L1Sparse(),
    Cola(),
    ColaPlus(),
    BoundaryShrink(),
    BoundaryExpand(),
    SynapticDampening(),
    Unsir(),
)


def methods() -> dict[str, Unlearner]:
    """Every method by its label: ours, and those of installed packages.

    A package adds its own by an entry point in the group `residua.unlearners` that names a frozen
    dataclass (or an instance of one).
    """
    found = {method.label: method for method in METHODS}
    for entry in sorted(entry_points(group="residua.unlearners"), key=lambda entry: entry.name):
        try:
            loaded = entry.load()
            method = loaded() if isinstance(loaded, type) else loaded
            label = method.label
            fit = dataclasses.is_dataclass(method) and callable(method) and isinstance(label, str)
        except Exception as error:
            raise InputError(
                f"the entry point {entry.name} = {entry.value} in residua.unlearners cannot be used ({error}); "
                "repair or uninstall the package that declares it"
            ) from error
        if not fit:
            raise InputError(
                f"the entry point {entry.name} = {entry.value} in residua.unlearners names no method; make it a "
                "frozen dataclass with a label and a __call__"
            )
        # As `find` looks: letters of either size are the same, and every k is ours.
        if label.lower() in (name.lower() for name in found) or _of_any_k(label):
            raise InputError(
                f"the entry point {entry.name} = {entry.value} brings a method named {label}, which is taken; "
                "rename its label"
            )
        found[label] = method
    return found


def find(label: str, **fields: Any) -> Unlearner:
    """The method that the paper prints as `label`, with these hyperparameters. EU and CF go by any k."""
    known = {name.lower(): method for name, method in methods().items()}
    method = known.get(label.lower()) or _of_any_k(label)
    if method is None:
        raise InputError(f"method {label!r} is unknown; choose one of {', '.join(methods())}")
    own = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    for name in fields:
        if name not in own:
            raise InputError(
                f"{method.label} has no setting {name}; its settings are {', '.join(own) or 'none'}"
            )
    return dataclasses.replace(method, **fields)  # type: ignore[type-var]


def _of_any_k(label: str) -> Unlearner | None:
    """EU-7, CF-3: the tables have two k, the methods any."""
    found = re.fullmatch(r"(eu|cf)-(\d{1,4})", label.lower())
    if found is None:
        return None
    k = int(found[2])
    return ExactLast(k=k) if found[1] == "eu" else CatastrophicLast(k=k)
