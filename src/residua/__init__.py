"""residua: does a model that was asked to forget still know?"""

from __future__ import annotations

from residua import compare, datasets, measure, networks, recipes, unlearn
from residua.checkpoint import load, save
from residua.classifier import Classifier, clone, freeze, reinitialise, thaw
from residua.errors import InputError
from residua.information import Information, mutual_information
from residua.reading import Reading
from residua.record import Record
from residua.split import Augmentation, Split
from residua.task import Dataset, ForgetTask, forget_classes, forget_indices, forget_samples
from residua.training import Pretraining, descend, seeded, watching

__version__ = "0.1.0"

__all__ = [
    # data and task
    "datasets",
    "Augmentation",
    "Dataset",
    "ForgetTask",
    "Split",
    "forget_classes",
    "forget_indices",
    "forget_samples",
    # networks
    "networks",
    "Classifier",
    "clone",
    "freeze",
    "thaw",
    "reinitialise",
    "load",
    "save",
    # training and unlearning
    "recipes",
    "unlearn",
    "Pretraining",
    "descend",
    "seeded",
    "watching",
    # measuring
    "measure",
    "compare",
    "Information",
    "mutual_information",
    "Reading",
    "Record",
    "InputError",
]
