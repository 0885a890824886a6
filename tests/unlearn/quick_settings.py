"""Any method with settings that take no time."""

from __future__ import annotations

import dataclasses

import residua as rs
from residua.training.settings import Epochs, Rate, described

PRETRAINING = rs.Pretraining(epochs=1, batch=32, lr=0.05, crop=1)
SMALL = {"pretraining": PRETRAINING, "crop": 1, "samples": 40, "noise_steps": 2}


def small(method):
    """The method with settings that take no time, and rates that keep strange weights from flying off."""
    method = method() if isinstance(method, type) else method
    fields = {}
    for name, field in described(type(method)).items():
        if isinstance(field.setting, Epochs):
            fields[name] = 1
        elif isinstance(field.setting, Rate) and field.setting.tune:
            fields[name] = 1e-4
        elif name in SMALL:
            fields[name] = SMALL[name]
    if hasattr(method, "dampening"):
        # Of so few samples no weight would matter ten times as much to one set as to the other.
        fields["alpha"] = 0.0
    return dataclasses.replace(method, **fields)
