"""residua: does a model that was asked to forget still know?

The public names. Each is imported when it is first used, so that `residua --help`, and code that only compares
numbers, does not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residua import compare, data, measure, models, study, unlearn
    from residua.audits.auditing import Audit, Auditor, assert_forgot, audit
    from residua.audits.rerunning import Rerun, rerun
    from residua.audits.saved import Saved, SavedFeatures, SavedOutputs, read_features, read_outputs, read_saved
    from residua.audits.verifying import verify
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

__version__ = "0.2.0.dev0"

# Packages by their public names, and public names by the modules that define them.
_PACKAGES = {
    "compare": "compare",
    "data": "data",
    "measure": "measure",
    "models": "models",
    "recipes": "training.recipes",
    "study": "study",
    "unlearn": "unlearn",
}
_NAMES = {
    "audits.auditing": ("Audit", "Auditor", "assert_forgot", "audit"),
    "audits.rerunning": ("Rerun", "rerun"),
    "audits.saved": (
        "Saved", "SavedFeatures", "SavedOutputs", "read_features", "read_outputs", "read_saved",
    ),
    "audits.verifying": ("verify",),
    "compare.verdicts": ("Rules",),
    "data.split": ("Augmentation", "Split"),
    "data.task": ("Dataset", "ForgetTask", "forget_classes", "forget_indices", "forget_samples"),
    "errors": ("InputError",),
    "measure.information.estimate": ("Information", "mutual_information"),
    "models.checkpoint": ("save",),
    "models.classifier": ("Classifier", "clone", "freeze", "reinitialise", "thaw"),
    "models.foreign": ("adopt", "load", "open_model"),
    "readings": ("Reading",),
    "record": ("Record",),
    "training.loop": ("descend", "seeded", "watching"),
    "training.pretraining": ("Pretraining",),
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_PACKAGES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'residua' has no attribute {name!r}")
    module = importlib.import_module(f"residua.{_PACKAGES.get(name) or _MODULES[name]}")
    value = module if name in _PACKAGES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
