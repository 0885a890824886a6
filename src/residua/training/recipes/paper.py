"""The paper's hyperparameters of every method: its tables for class-wise and random data forgetting.

Values are transcribed, not tuned; what the tables leave out (alpha, temperature, momentum, ...) is a
field's default in `unlearn/`. The optimizer is part of each method.
"""

from __future__ import annotations

from typing import Any

from residua.training.recipes.pretrainings import IMAGENET_CROP

Fields = dict[str, Any]
Recipes = dict[str, dict[str, dict[str, Fields]]]

NETWORKS = ("resnet18", "resnet50", "vit")


def _across(networks: tuple[str, ...], table: dict[str, Fields]) -> dict[str, dict[str, Fields]]:
    """One column of a table: a tuple holds one value for each network, anything else serves all."""
    return {
        network: {
            label: {
                name: value[place] if isinstance(value, tuple) else value for name, value in fields.items()
            }
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
    COLA={
        "collapse_epochs": 10,
        "align_epochs": 10,
        "collapse_lr": (2e-4, 2e-4, 1.5e-4),
        "align_lr": (5e-6, 1e-5, 5e-5),
        "batch": 64,
    },
)
_CLASS_CIFAR100 = _CLASS_CIFAR10 | _rows(
    RL={"epochs": (7, 7, 10), "lr": (2e-5, 1e-4, 1e-4), "retain_batch": 64, "forget_batch": 16},
    GA={"epochs": 10, "lr": (9e-4, 9e-4, 5e-3), "retain_batch": 64, "forget_batch": 16},
    SCRUB={"epochs": 3, "forget_epochs": 2, "lr": 5e-4, "retain_batch": 128, "forget_batch": 8},
    SALUN={"epochs": 15, "lr": 1e-3, "retain_batch": 64, "forget_batch": 16},
    l1={"epochs": 10, "lr": (2e-4, 2e-4, 5e-4), "batch": 64},
    COLA={
        "collapse_epochs": 10,
        "align_epochs": 10,
        "collapse_lr": 5e-4,
        "align_lr": (5e-6, 1e-5, 5e-5),
        "batch": 256,
    },
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
    COLA={
        "collapse_epochs": 1,
        "align_epochs": 2,
        "collapse_lr": (2e-5, 5e-5),
        "align_lr": (1e-5, 5e-5),
        "batch": 256,
    },
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
    COLAplus={
        "collapse_epochs": 10,
        "align_epochs": 10,
        "collapse_lr": 2e-4,
        "align_lr": 1e-4,
        "retain_batch": 32,
        "forget_batch": 64,
    },
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
    COLAplus={
        "collapse_epochs": 10,
        "align_epochs": 10,
        "collapse_lr": 2.5e-4,
        "align_lr": 2e-5,
        "retain_batch": 64,
        "forget_batch": 192,
    },
)

UNLEARNING: dict[str, Recipes] = {
    "class": {
        "cifar10": _across(NETWORKS, _CLASS_CIFAR10),
        "cifar100": _across(NETWORKS, _CLASS_CIFAR100),
        "imagenet": _across(NETWORKS[1:], _cropped(_CLASS_IMAGENET)),
    },
    "random": {
        "cifar10": _across(NETWORKS[:1], _RANDOM_CIFAR10),
        "cifar100": _across(NETWORKS[:1], _RANDOM_CIFAR100),
    },
}
