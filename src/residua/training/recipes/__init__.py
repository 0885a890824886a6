"""Recipes: hyperparameters as Python values, each with its source."""

from __future__ import annotations

from residua.training.recipes.lookup import unlearning, unlearning_of
from residua.training.recipes.paper import UNLEARNING
from residua.training.recipes.pretrainings import (
    PAPER,
    SMALL,
    SMALL_MEMORISED,
    TINY,
    WIDER,
    WIDTH,
    Scale,
    pretraining,
    stem_at,
)
from residua.training.recipes.shadows import SHADOWS
from residua.training.recipes.tuned import SMALL_TUNED

__all__ = [
    "PAPER",
    "SHADOWS",
    "SMALL",
    "SMALL_MEMORISED",
    "SMALL_TUNED",
    "TINY",
    "UNLEARNING",
    "WIDER",
    "WIDTH",
    "stem_at",
    "Scale",
    "pretraining",
    "unlearning",
    "unlearning_of",
]
