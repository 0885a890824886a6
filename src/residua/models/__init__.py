"""Models: a classifier is a list of blocks and a head; ours, other people's, and their files."""

from __future__ import annotations

from residua.models.checkpoint import save
from residua.models.classifier import Classifier, clone, freeze, reinitialise, thaw
from residua.models.foreign import adopt, load, open_model
from residua.models.networks import NETWORKS, build, resnet18, resnet50, stem_for, vit

__all__ = [
    "NETWORKS",
    "Classifier",
    "adopt",
    "build",
    "clone",
    "freeze",
    "load",
    "open_model",
    "reinitialise",
    "resnet18",
    "resnet50",
    "save",
    "stem_for",
    "thaw",
    "vit",
]
