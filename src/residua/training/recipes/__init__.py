"""Recipes: hyperparameters as Python values, each with its source."""

from __future__ import annotations

from residua.training.recipes.lookup import unlearning, unlearning_of
from residua.training.recipes.paper import UNLEARNING
from residua.training.recipes.pretrainings import PAPER, SMALL, TINY, WIDTH, Scale, pretraining, stem_at
from residua.training.recipes.shadows import SHADOWS

__all__ = [
    "PAPER",
    "SHADOWS",
    "SMALL",
    "TINY",
    "UNLEARNING",
    "WIDTH",
    "stem_at",
    "Scale",
    "pretraining",
    "unlearning",
    "unlearning_of",
]
