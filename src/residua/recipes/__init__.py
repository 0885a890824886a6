"""Recipes: hyperparameters as Python values, each with its source."""

from __future__ import annotations

from residua.recipes.pretraining import PAPER, SMALL, TINY, WIDTH, Scale, pretraining

__all__ = ["PAPER", "SMALL", "TINY", "WIDTH", "Scale", "pretraining"]
