"""Recipes: hyperparameters as Python values, each with its source."""

from __future__ import annotations

from residua.recipes.paper import UNLEARNING
from residua.recipes.pretraining import PAPER, SMALL, TINY, WIDTH, Scale, pretraining
from residua.recipes.shadows import SHADOWS
from residua.recipes.unlearning import unlearning, unlearning_of

__all__ = [
    "PAPER",
    "SHADOWS",
    "SMALL",
    "TINY",
    "UNLEARNING",
    "WIDTH",
    "Scale",
    "pretraining",
    "unlearning",
    "unlearning_of",
]
