"""Other people's networks and files: a module or a checkpoint in, a Classifier out."""

from __future__ import annotations

from residua.models.foreign.adopting import adopt
from residua.models.foreign.opening import load, open_model

__all__ = ["adopt", "load", "open_model"]
