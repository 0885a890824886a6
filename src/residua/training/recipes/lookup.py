"""Which hyperparameters a method gets: the paper's, or ours for small networks on two cores."""

from __future__ import annotations

from residua.errors import InputError
from residua.training.recipes.paper import UNLEARNING, Fields
from residua.training.recipes.pretrainings import WIDTH, Scale, pretraining
from residua.training.recipes.small_scale import SMALL_CLASS, SMALL_RANDOM, TINY_CLASS, TINY_RANDOM

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


def unlearning(scale: Scale, scenario: str, dataset: str, network: str) -> dict[str, Fields]:
    """Fields by label for this scale, scenario (class or random), data set and network.

    Retrain's is its pretraining. A method without an entry (HD, Random, ...) keeps its defaults.
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
    """One method's fields. Of a method that is in none of its tables the paper says nothing, on whatever data
    and network; at full scale it keeps its defaults."""
    if scale == "full" and label not in TABLED and label != "Retrain":
        return {}
    return unlearning(scale, scenario, dataset, network).get(label, {})
