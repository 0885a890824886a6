"""The paper's hyperparameters: training of Original and Retrain, every method, shadow models.

Values are transcribed, not tuned; those that the tables leave out (alpha, temperature, momentum, ...) are a field's
default in `unlearn/`. The optimizer is part of each method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from residua.training.pretraining import Pretraining

Fields = dict[str, Any]
Recipes = dict[str, dict[str, dict[str, Fields]]]

NETWORKS = ("resnet18", "resnet50", "vit")

# [ours] The paper says that it crops, not by how much: an eighth of 224 pixels, as 4 is of CIFAR's 32. Image files are
# cut at decoding instead, as is usual for ImageNet (`Augmentation`).
IMAGENET_CROP = 28

# The paper, table "Training configuration for Original and Retrain". It starts ViT from
# ImageNet-21K weights; give those as the network to train.
_CIFAR_RESNET = Pretraining(epochs=300, batch=128, lr=0.1, weight_decay=5e-4)
_CIFAR_VIT = Pretraining(epochs=3, batch=128, lr=2e-5, weight_decay=5e-4)
PAPER: dict[tuple[str, str], Pretraining] = {
    ("cifar10", "resnet18"): _CIFAR_RESNET,
    ("cifar10", "resnet50"): _CIFAR_RESNET,
    ("cifar10", "vit"): _CIFAR_VIT,
    ("cifar100", "resnet18"): _CIFAR_RESNET,
    ("cifar100", "resnet50"): _CIFAR_RESNET,
    ("cifar100", "vit"): _CIFAR_VIT,
    ("imagenet", "resnet50"): Pretraining(epochs=90, batch=256, lr=0.1, weight_decay=0.0, crop=IMAGENET_CROP),
    ("imagenet", "vit"): Pretraining(epochs=30, batch=512, lr=0.02, weight_decay=0.0, crop=IMAGENET_CROP),
}


def _across(networks: tuple[str, ...], table: dict[str, Fields]) -> dict[str, dict[str, Fields]]:
    """One column of a table: a tuple holds one value for each network, anything else serves all."""
    return {
        network: {
            label: {name: value[place] if isinstance(value, tuple) else value for name, value in fields.items()}
            for label, fields in table.items()
        }
        for place, network in enumerate(networks)
    }


def _rows(**rows: Fields) -> dict[str, Fields]:
    """The paper's labels, of which some are no Python names."""
    table: dict[str, Fields] = {}
    for name, fields in rows.items():
        if name in ("EU", "CF"):
            table |= {f"{name}-{k}": {"k": k, **fields} for k in (5, 10)}
        else:
            table[{"BadT": "Bad-T", "l1": "l1-sparse", "COLAplus": "COLA+"}.get(name, name)] = fields
    return table


def cola(collapse_epochs: Any, align_epochs: Any, collapse_lr: Any, align_lr: Any, **batches: int) -> dict[str, Any]:
    """One row of COLA or COLA+, which train in two phases."""
    return {
        "collapse_epochs": collapse_epochs,
        "align_epochs": align_epochs,
        "collapse_lr": collapse_lr,
        "align_lr": align_lr,
        **batches,
    }


def _cropped(table: dict[str, Fields]) -> dict[str, Fields]:
    """[ours] As in pretraining: the paper crops, but does not say by how much."""
    return {label: {**fields, "crop": IMAGENET_CROP} for label, fields in table.items()}


# Table "Hyperparameters of baselines for class-wise forgetting".
_CLASS_CIFAR10 = _rows(
    FT={"epochs": 25, "lr": (1e-5, 1e-5, 1e-4), "batch": 64},
    RL={"epochs": (7, 7, 10), "lr": (1e-5, 2e-5, 1e-3), "retain_batch": 64, "forget_batch": 16},
    GA={"epochs": 10, "lr": (2e-3, 2e-3, 5e-3), "retain_batch": 64, "forget_batch": 16},
    BadT={"epochs": 10, "lr": 1e-5, "batch": 256},
    EU={"epochs": 14, "lr": 1e-2, "batch": 64},
    CF={"epochs": (14, 14, 18), "lr": (1e-2, 1e-2, 3e-2), "batch": 64},
    SCRUB={
        "epochs": 3,
        "forget_epochs": 2,
        "lr": (5e-4, 5e-4, 1e-4),
        "retain_batch": 64,
        "forget_batch": (256, 256, 64),
    },
    SALUN={"epochs": 10, "lr": (5e-4, 1e-3, 1e-3), "retain_batch": 64, "forget_batch": 16},
    l1={"epochs": 10, "lr": (2e-4, 2e-4, 9e-4), "batch": 64},
    COLA=cola(10, 10, (2e-4, 2e-4, 1.5e-4), (5e-6, 1e-5, 5e-5), batch=64),
)
_CLASS_CIFAR100 = _CLASS_CIFAR10 | _rows(
    RL={"epochs": (7, 7, 10), "lr": (2e-5, 1e-4, 1e-4), "retain_batch": 64, "forget_batch": 16},
    GA={"epochs": 10, "lr": (9e-4, 9e-4, 5e-3), "retain_batch": 64, "forget_batch": 16},
    SCRUB={"epochs": 3, "forget_epochs": 2, "lr": 5e-4, "retain_batch": 128, "forget_batch": 8},
    SALUN={"epochs": 15, "lr": 1e-3, "retain_batch": 64, "forget_batch": 16},
    l1={"epochs": 10, "lr": (2e-4, 2e-4, 5e-4), "batch": 64},
    COLA=cola(10, 10, 5e-4, (5e-6, 1e-5, 5e-5), batch=256),
)
_CLASS_IMAGENET = _rows(
    FT={"epochs": (3, 4), "lr": 1e-5, "batch": 128},
    RL={"epochs": 3, "lr": (1e-3, 1e-4), "retain_batch": 128, "forget_batch": 16},
    GA={"epochs": 3, "lr": (2e-3, 1e-3), "retain_batch": 128, "forget_batch": 16},
    BadT={"epochs": 3, "lr": 1e-5, "batch": 256},
    EU={"epochs": 2, "lr": 5e-3, "batch": 128},
    CF={"epochs": 5, "lr": 5e-3, "batch": 128},
    SCRUB={"epochs": 2, "forget_epochs": 2, "lr": (5e-4, 1e-4), "retain_batch": 128, "forget_batch": 256},
    SALUN={"epochs": (5, 2), "lr": 1e-3, "retain_batch": 128, "forget_batch": 16},
    l1={"epochs": 5, "lr": 9e-4, "batch": 128},
    COLA=cola(1, 2, (2e-5, 5e-5), (1e-5, 5e-5), batch=256),
)

# Table "Hyperparameters of baselines for random data forgetting".
_RANDOM_CIFAR10 = _rows(
    FT={"epochs": 25, "lr": 1e-4, "batch": 64},
    RL={"epochs": 7, "lr": 1e-3, "retain_batch": 64, "forget_batch": 16},
    GA={"epochs": 10, "lr": 2.5e-3, "retain_batch": 64, "forget_batch": 16},
    BadT={"epochs": 10, "lr": 1e-5, "batch": 256},
    EU={"epochs": 14, "lr": 1e-1, "batch": 64},
    CF={"epochs": 14, "lr": 1e-1, "batch": 64},
    SCRUB={"epochs": 5, "forget_epochs": 5, "lr": 2.5e-5, "retain_batch": 16, "forget_batch": 64},
    SALUN={"epochs": 10, "lr": 8.3e-4, "retain_batch": 64, "forget_batch": 16},
    l1={"epochs": 10, "lr": 4e-4, "batch": 64},
    COLAplus=cola(10, 10, 2e-4, 1e-4, retain_batch=32, forget_batch=64),
)
_RANDOM_CIFAR100 = _rows(
    FT={"epochs": 25, "lr": 2e-4, "batch": 64},
    RL={"epochs": 7, "lr": 5e-4, "retain_batch": 64, "forget_batch": 16},
    GA={"epochs": 10, "lr": 1e-3, "retain_batch": 64, "forget_batch": 16},
    BadT={"epochs": 10, "lr": 1e-5, "batch": 256},
    EU={"epochs": 14, "lr": 5e-2, "batch": 64},
    CF={"epochs": 14, "lr": 5e-2, "batch": 64},
    SCRUB={"epochs": 5, "forget_epochs": 5, "lr": 5.4e-4, "retain_batch": 16, "forget_batch": 64},
    SALUN={"epochs": 15, "lr": 5e-4, "retain_batch": 64, "forget_batch": 16},
    l1={"epochs": 10, "lr": 3e-4, "batch": 64},
    COLAplus=cola(10, 10, 2.5e-4, 2e-5, retain_batch=64, forget_batch=192),
)

UNLEARNING: dict[str, Recipes] = {
    "class": {
        "cifar10": _across(NETWORKS, _CLASS_CIFAR10),
        "cifar100": _across(NETWORKS, _CLASS_CIFAR100),
        "imagenet": _across(NETWORKS[1:], _cropped(_CLASS_IMAGENET)),
    },
    "random": {"cifar10": _across(NETWORKS[:1], _RANDOM_CIFAR10), "cifar100": _across(NETWORKS[:1], _RANDOM_CIFAR100)},
}


@dataclass(frozen=True)
class ShadowNumbers:
    """`models` shadow models of U-LiRA, each of which unlearns `forget_sets` sets of about `size` samples of `of_class`."""

    models: int
    forget_sets: int
    size: int
    of_class: int
    variance: Literal["example", "shared"]


# Appendix on metrics: 128 models, 40 forget sets of 200, class 4 of CIFAR-10.
FULL_SHADOWS = ShadowNumbers(models=128, forget_sets=40, size=200, of_class=4, variance="example")
