"""Recipes: hyperparameters as Python values, each with its source: the paper's, or ours for small networks."""

from __future__ import annotations

from typing import Literal

from residua.errors import InputError
from residua.models.networks import Stem, stem_for
from residua.training.pretraining import Pretraining
from residua.training.recipes.ours import (
    SMALL,
    SMALL_CLASS,
    SMALL_RANDOM,
    SMALL_SHADOWS,
    TINY,
    TINY_CLASS,
    TINY_RANDOM,
    TINY_SHADOWS,
)
from residua.training.recipes.paper import FULL_SHADOWS, PAPER, UNLEARNING, Fields, ShadowNumbers

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

Scale = Literal["tiny", "small", "full"]

WIDTH: dict[Scale, int] = {"tiny": 16, "small": 16, "full": 64}
SHADOWS: dict[Scale, ShadowNumbers] = {"tiny": TINY_SHADOWS, "small": SMALL_SHADOWS, "full": FULL_SHADOWS}
OURS = {
    ("tiny", "class"): TINY_CLASS,
    ("tiny", "random"): TINY_RANDOM,
    ("small", "class"): SMALL_CLASS,
    ("small", "random"): SMALL_RANDOM,
}

# The methods that the paper gives hyperparameters of.
TABLED = {
    label
    for datasets in UNLEARNING.values()
    for networks in datasets.values()
    for recipes in networks.values()
    for label in recipes
}


def stem_at(scale: Scale, side: int) -> Stem:
    """The stem of a ResNet at this scale, for images of `side` x `side` pixels.

    [ours] `tiny` takes ImageNet's for small images too. Tried on the embedded data were width 8 with CIFAR's stem for 6
    and 12 epochs, width 8 with ImageNet's without pooling, and width 16 with ImageNet's for 12 and 18. This one trains
    in a third of the time, and its Retrains differ least from each other, relative to their distance from Original.
    """
    return "imagenet" if scale == "tiny" else stem_for(side)


def pretraining(scale: Scale, dataset: str, network: str) -> Pretraining:
    """The training of Original and Retrain.

    Args:
        scale: `full` for the paper's, `tiny` or `small` for ours, which are the same for all data and networks.
        dataset: Data set of the paper's table.
        network: Network of the paper's table.
    """
    if scale not in WIDTH:
        raise InputError(f"scale {scale!r} is unknown; choose one of {', '.join(WIDTH)}")
    if scale == "tiny":
        return TINY
    if scale == "small":
        return SMALL
    if (dataset, network) not in PAPER:
        known = ", ".join(f"{d} with {n}" for d, n in PAPER)
        raise InputError(
            f"the paper has no pretraining of {network} on {dataset}, only {known}; choose --scale tiny or small"
        )
    return PAPER[dataset, network]


def unlearning(scale: Scale, scenario: str, dataset: str, network: str) -> dict[str, Fields]:
    """Hyperparameters of every method by its label; a method without an entry keeps its defaults.

    Retrain's entry is its pretraining.

    Args:
        scale: `full` for the paper's, `tiny` or `small` for ours, which are the same for all data and networks.
        scenario: `class` or `random`.
        dataset: Data set of the paper's tables.
        network: Network of the paper's tables.
    """
    if scale not in WIDTH:
        raise InputError(f"scale {scale!r} is unknown; choose one of {', '.join(WIDTH)}")
    if scale == "full" and network not in UNLEARNING[scenario].get(dataset, {}):
        known = ", ".join(f"{d} with {n}" for d, networks in UNLEARNING[scenario].items() for n in networks)
        raise InputError(
            f"the paper has no {scenario} forgetting of {network} on {dataset}, only {known}; "
            "choose --scale tiny or small"
        )
    of_methods = UNLEARNING[scenario][dataset][network] if scale == "full" else OURS[scale, scenario]
    return {"Retrain": {"pretraining": pretraining(scale, dataset, network)}} | of_methods


def unlearning_of(label: str, scale: Scale, scenario: str, dataset: str, network: str) -> Fields:
    """One method's fields. A method in none of the paper's tables keeps its defaults at full scale, on any data."""
    if scale == "full" and label not in TABLED and label != "Retrain":
        return {}
    return unlearning(scale, scenario, dataset, network).get(label, {})
