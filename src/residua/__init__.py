"""residua: does a model that was asked to forget still know?

The public names, grouped by room. Each is imported when it is first used, so that `residua --help`, and whoever
only compares numbers, does not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residua import compare, data, measure, models, study, unlearn
    from residua.audits import Audit, Rerun, assert_forgot, audit, rerun, verify
    from residua.audits.saved_files import (
        Saved,
        SavedFeatures,
        SavedOutputs,
        read_features,
        read_outputs,
        read_saved,
    )
    from residua.compare.verdicts import Rules
    from residua.data.split import Augmentation, Split
    from residua.data.task import Dataset, ForgetTask, forget_classes, forget_indices, forget_samples
    from residua.errors import InputError
    from residua.measure.information.estimate import Information, mutual_information
    from residua.models.checkpoint import save
    from residua.models.classifier import Classifier, clone, freeze, reinitialise, thaw
    from residua.models.foreign import adopt, load, open_model
    from residua.readings import Reading
    from residua.record import Record
    from residua.training import recipes
    from residua.training.loop import descend, seeded, watching
    from residua.training.pretraining import Pretraining

    datasets, networks = data, models

__version__ = "0.2.0.dev0"

# Where each public name is: "room" for a room, "room:name" for a name in one.
_PLACES = {
    # data and task
    "data": "data",
    "datasets": "data",
    "Augmentation": "data.split:Augmentation",
    "Dataset": "data.task:Dataset",
    "ForgetTask": "data.task:ForgetTask",
    "Split": "data.split:Split",
    "forget_classes": "data.task:forget_classes",
    "forget_indices": "data.task:forget_indices",
    "forget_samples": "data.task:forget_samples",
    # models
    "models": "models",
    "networks": "models",
    "Classifier": "models.classifier:Classifier",
    "adopt": "models.foreign:adopt",
    "clone": "models.classifier:clone",
    "freeze": "models.classifier:freeze",
    "thaw": "models.classifier:thaw",
    "reinitialise": "models.classifier:reinitialise",
    "load": "models.foreign:load",
    "open_model": "models.foreign:open_model",
    "save": "models.checkpoint:save",
    # training and unlearning
    "recipes": "training.recipes",
    "unlearn": "unlearn",
    "Pretraining": "training.pretraining:Pretraining",
    "descend": "training.loop:descend",
    "seeded": "training.loop:seeded",
    "watching": "training.loop:watching",
    # measuring and comparing
    "measure": "measure",
    "compare": "compare",
    "Information": "measure.information.estimate:Information",
    "mutual_information": "measure.information.estimate:mutual_information",
    "Reading": "readings:Reading",
    "Record": "record:Record",
    "Rules": "compare.verdicts:Rules",
    # audits and studies
    "Audit": "audits:Audit",
    "Rerun": "audits:Rerun",
    "assert_forgot": "audits:assert_forgot",
    "audit": "audits:audit",
    "rerun": "audits:rerun",
    "verify": "audits:verify",
    "Saved": "audits.saved_files:Saved",
    "SavedFeatures": "audits.saved_files:SavedFeatures",
    "SavedOutputs": "audits.saved_files:SavedOutputs",
    "read_features": "audits.saved_files:read_features",
    "read_outputs": "audits.saved_files:read_outputs",
    "read_saved": "audits.saved_files:read_saved",
    "study": "study",
    "InputError": "errors:InputError",
}

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'residua' has no attribute {name!r}")
    room, _, inside = _PLACES[name].partition(":")
    module = importlib.import_module(f"residua.{room}")
    value = getattr(module, inside) if inside else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
