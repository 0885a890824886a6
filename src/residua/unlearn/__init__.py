"""Ways to unlearn, in the paper's order. Adding one is one file and one line here."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Protocol

from residua import plugins
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier
from residua.roles import Role
from residua.unlearn.anchors import Original, Random, Retrain
from residua.unlearn.bad_teacher import BadTeacher
from residua.unlearn.bottleneck import Bottleneck
from residua.unlearn.boundary import BoundaryExpand, BoundaryShrink
from residua.unlearn.class_means import ClassMeans
from residua.unlearn.cola import Cola, ColaPlus
from residua.unlearn.contrastive import Contrastive
from residua.unlearn.delete import Delete
from residua.unlearn.depth_aware import DepthAware
from residua.unlearn.erasing_space import ErasingSpace, ErasingSpaceTrained
from residua.unlearn.fine_tune import FineTune, L1Sparse
from residua.unlearn.gradient_ascent import GradientAscent, NegativeGradient
from residua.unlearn.head_distillation import HeadDistillation
from residua.unlearn.last_layers import CatastrophicLast, ExactLast
from residua.unlearn.one_point import OnePoint
from residua.unlearn.pour import Pour, PourDistilled
from residua.unlearn.random_label import RandomLabel, Saliency
from residua.unlearn.scrub import Scrub
from residua.unlearn.synaptic_dampening import SynapticDampening
from residua.unlearn.unsir import Unsir

__all__ = [
    "METHODS",
    "BadTeacher",
    "Bottleneck",
    "BoundaryExpand",
    "BoundaryShrink",
    "CatastrophicLast",
    "ClassMeans",
    "Cola",
    "ColaPlus",
    "Contrastive",
    "Delete",
    "DepthAware",
    "ErasingSpace",
    "ErasingSpaceTrained",
    "ExactLast",
    "FineTune",
    "GradientAscent",
    "HeadDistillation",
    "L1Sparse",
    "NegativeGradient",
    "OnePoint",
    "Original",
    "Pour",
    "PourDistilled",
    "Random",
    "RandomLabel",
    "Retrain",
    "Saliency",
    "Scrub",
    "SynapticDampening",
    "Traits",
    "Unlearner",
    "Unsir",
    "find",
    "methods",
    "traits",
]


@dataclasses.dataclass(frozen=True)
class Traits:
    """Properties of every model that a method makes.

    These are the defaults. A method that differs says so by a class attribute of the same name, such as
    `from_scratch = True`; other people's methods need not say anything.
    """

    # Nothing of Original's weights goes in: the method only needs Original's architecture.
    from_scratch: bool = False
    # Original's encoder is kept, bit for bit: whatever is read from features is Original's.
    keeps_encoder: bool = False
    # No part of the network but the head is trained: made within seconds, where others take minutes.
    quick: bool = False
    # A model that does nothing, or that collapses, is a fault of the settings.
    guarded: bool = True
    # A checkpoint is enough to rebuild the model.
    savable: bool = True
    # The part of its models in a study.
    role: Role = "method"
    # The kinds of `ForgetTask` that the method can do.
    scenarios: tuple[str, ...] = ("class", "random")


def traits(method: object) -> Traits:
    """The traits of a method, or of its class."""
    names = [field.name for field in dataclasses.fields(Traits)]
    return Traits(**{name: getattr(method, name) for name in names if hasattr(method, name)})


class Unlearner(Protocol):
    """A frozen dataclass whose fields are hyperparameters and whose call makes one model of another.

    `original` is never changed. Randomness comes from PyTorch's global generator, which the
    caller seeds. Class attributes may set `Traits`.
    """

    @property
    def label(self) -> str:
        """The name that the paper prints."""

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier: ...


# The rows of the paper's tables, those that it only cites, and later ones that claim to reach the features.
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
    NegativeGradient(),
    ErasingSpace(),
    ErasingSpaceTrained(),
    Pour(),
    PourDistilled(),
    DepthAware(),
    OnePoint(),
    ClassMeans(),
    Bottleneck(),
    Contrastive(),
    Delete(),
)


def methods() -> dict[str, Unlearner]:
    """Every method by its label: ours, and those of installed packages and plain files (see `residua.plugins`)."""
    ours = {method.label: method for method in METHODS}
    known = {label.lower() for label in ours}
    theirs = plugins.discover(
        "residua.unlearners",
        taken=lambda label: label.lower() in known or _of_any_k(label) is not None,
        fit=lambda thing: _instance(thing) is not None,
    )
    return ours | {label: method for label, thing in theirs.items() if (method := _instance(thing))}


def find(label: str, **fields: Any) -> Unlearner:
    """The method with this label and these hyperparameters.

    Args:
        label: Name that the paper prints, in upper or lower case; EU and CF take any k. `module:Class` and
            `path/to/file.py:Class` name a method of your own.
        fields: Hyperparameters that differ from the method's defaults.
    """
    method = _named(label) if ":" in label else _labelled(label)
    own = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    for name in fields:
        if name not in own:
            raise InputError(f"{method.label} has no setting {name}; its settings are {', '.join(own) or 'none'}")
    return dataclasses.replace(method, **fields)  # type: ignore[type-var]


def _labelled(label: str) -> Unlearner:
    known = {name.lower(): method for name, method in methods().items()}
    method = known.get(label.lower()) or _of_any_k(label)
    if method is None:
        raise InputError(f"method {label!r} is unknown; choose one of {', '.join(methods())}")
    return method


def _named(label: str) -> Unlearner:
    method = _instance(plugins.named(label))
    if method is None:
        raise InputError(
            f"{label} is not a method; make it a frozen dataclass with a label and a __call__(original, task)"
        )
    return method


def _instance(thing: Any) -> Unlearner | None:
    """The method itself, or an instance of its class; None for anything else."""
    method: Any = thing() if isinstance(thing, type) and dataclasses.is_dataclass(thing) else thing
    fit = dataclasses.is_dataclass(method) and callable(method) and not isinstance(method, type)
    return method if fit and isinstance(getattr(method, "label", None), str) else None


def _of_any_k(label: str) -> Unlearner | None:
    """EU-7, CF-3: the tables have two k, the methods any."""
    match = re.fullmatch(r"(eu|cf)-(\d{1,4})", label.lower())
    if match is None:
        return None
    k = int(match[2])
    return ExactLast(k=k) if match[1] == "eu" else CatastrophicLast(k=k)
