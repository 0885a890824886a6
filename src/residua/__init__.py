"""residua: does a model that was asked to forget still know?"""

from __future__ import annotations

from residua import compare, datasets, measure, networks, recipes, unlearn
from residua.adopt import adopt
from residua.audit import Audit, Rerun, assert_forgot, audit, rerun, verify
from residua.checkpoint import load, save
from residua.classifier import Classifier, clone, freeze, reinitialise, thaw
from residua.errors import InputError
from residua.information import Information, mutual_information
from residua.reading import Reading
from residua.record import Record
from residua.saved import Saved, SavedFeatures, SavedOutputs, read_features, read_outputs, read_saved
from residua.split import Augmentation, Split
from residua.strangers import open_model
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
    "adopt",
    "clone",
    "freeze",
    "thaw",
    "reinitialise",
    "load",
    "open_model",
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
    "Saved",
    "SavedFeatures",
    "SavedOutputs",
    "read_features",
    "read_outputs",
    "read_saved",
    "Reading",
    "Record",
    # the front door
    "Audit",
    "Rerun",
    "assert_forgot",
    "audit",
    "rerun",
    "verify",
    "InputError",
]
