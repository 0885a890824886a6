"""The paper's names: of methods, data sets and networks, and how ours become theirs."""

from __future__ import annotations

from residua.text import slug

# In the order of the paper's tables.
METHODS = ("FT", "RL", "GA", "Bad-T", "EU-5", "CF-5", "EU-10", "CF-10", "SCRUB", "SALUN", "l1-sparse", "COLA")
ROWS = ("Original", "Retrain", "Random", "HD", *METHODS, "COLA+")
# The methods of the bars: all of the paper's class-wise table, with HD.
THIRTEEN = ("HD", *METHODS)
# Tables of settings, of which nothing is measured: how Original is trained, and the methods' recipes by scenario.
PRETRAINING = "tab:pretraining_detail"
SCENARIOS = {"tab:hyperparam_class": "class", "tab:hyperparam_sample": "random"}
SETTINGS = (PRETRAINING, *SCENARIOS)
SIX = ("HD", "FT", "RL", "GA", "l1-sparse", "SALUN")
_BY_SLUG = {slug(name): name for name in ROWS} | {"reference": "Retrain"}

# Data set, as records call it, by the paper's name.
DATASETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "ImageNet-1K": "imagenet"}
NETWORKS = {"ResNet-18": "resnet18", "ResNet-50": "resnet50", "ViT": "vit"}
# How many of the last blocks the paper sums.
LAST = {"resnet18": 2, "resnet50": 3, "vit": 3}
# Blocks whose information the paper's tables and figures show.
BLOCKS = {"resnet18": 5, "resnet50": 6, "vit": 12}
WIDTH = 64
TRIALS = 5


def canonical(label: str) -> str:
    """The paper's name of a method, whatever letters a file name left of it; other labels stay as they are."""
    return label if label in ROWS else _BY_SLUG.get(slug(label), label)
