"""Our hyperparameters for small networks on two cores.

All were chosen on one seed by UA and TA, as the paper did, and never by IDI. Those of TINY were found with an earlier
network (width 8) as the least learning rate that reaches UA 0.99, and with the present one only those were changed that no
longer did, Bad-T's after three seeds; COLA has many collapses with the same UA and TA, and ours is a strong one; SSD and Boundary Expand reach
no UA of 0.99 without ruining the model. Those of random forgetting and of CIFAR-10 have the least gap to Retrain in UA
and TA of what was tried. In random forgetting that says little: Original is within 0.08 of Retrain, and on 500
samples UA has a standard error of 0.016. Short trainings need larger learning rates than the paper's. At the tiny
scale nothing is cropped: an Original that remembers its images leaves more to forget.
"""

from __future__ import annotations

from residua.training.recipes.paper import Fields

TINY_CLASS: dict[str, Fields] = {
    "HD": {"epochs": 1, "lr": 1e-2, "batch": 64, "crop": 0},
    "FT": {"epochs": 2, "lr": 1e-3, "batch": 64, "crop": 0},
    "RL": {"epochs": 3, "lr": 4e-3, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "GA": {"epochs": 3, "lr": 2e-3, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "Bad-T": {"epochs": 5, "lr": 2e-3, "batch": 64, "temperature": 0.1, "retain_share": 0.5, "crop": 0},
    "EU-5": {"k": 5, "epochs": 4, "lr": 3e-2, "batch": 64, "crop": 0},
    "EU-10": {"k": 10, "epochs": 4, "lr": 3e-2, "batch": 64, "crop": 0},
    "CF-5": {"k": 5, "epochs": 4, "lr": 5e-2, "batch": 64, "crop": 0},
    "CF-10": {"k": 10, "epochs": 4, "lr": 5e-2, "batch": 64, "crop": 0},
    "SCRUB": {
        "epochs": 3,
        "forget_epochs": 2,
        "lr": 2e-3,
        "retain_batch": 64,
        "forget_batch": 64,
        "crop": 0,
    },
    "SALUN": {"epochs": 3, "lr": 6e-3, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "l1-sparse": {"epochs": 4, "lr": 5e-2, "batch": 64, "crop": 0},
    "COLA": {
        "collapse_epochs": 6,
        "align_epochs": 2,
        "collapse_lr": 1e-2,
        "align_lr": 1e-3,
        "batch": 128,
        "crop": 0,
    },
    "COLA+": {
        "collapse_epochs": 3,
        "align_epochs": 3,
        "collapse_lr": 3e-3,
        "align_lr": 1e-3,
        "retain_batch": 128,
        "forget_batch": 32,
        "crop": 0,
    },
    "Boundary Shrink": {"epochs": 3, "lr": 5e-4, "batch": 32, "crop": 0},
    "Boundary Expand": {"epochs": 3, "lr": 5e-4, "batch": 32, "crop": 0},
    "SSD": {"alpha": 5.0, "samples": 1000},
    "UNSIR": {"lr": 5e-3, "repair_lr": 1e-3, "retain_batch": 64, "forget_batch": 64, "crop": 0},
}

TINY_RANDOM: dict[str, Fields] = {
    "HD": {"epochs": 1, "lr": 1e-1, "batch": 64, "crop": 0},
    "FT": {"epochs": 3, "lr": 3e-3, "batch": 64, "crop": 0},
    "RL": {"epochs": 3, "lr": 5e-3, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "GA": {"epochs": 3, "lr": 4e-2, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "Bad-T": {"epochs": 3, "lr": 3e-3, "batch": 64, "crop": 0},
    "EU-5": {"k": 5, "epochs": 4, "lr": 3e-2, "batch": 64, "crop": 0},
    "EU-10": {"k": 10, "epochs": 4, "lr": 3e-2, "batch": 64, "crop": 0},
    "CF-5": {"k": 5, "epochs": 4, "lr": 2e-1, "batch": 64, "crop": 0},
    "CF-10": {"k": 10, "epochs": 4, "lr": 1e-1, "batch": 64, "crop": 0},
    "SCRUB": {
        "epochs": 3,
        "forget_epochs": 2,
        "lr": 1.5e-2,
        "retain_batch": 64,
        "forget_batch": 64,
        "crop": 0,
    },
    "SALUN": {"epochs": 3, "lr": 5e-3, "retain_batch": 64, "forget_batch": 16, "crop": 0},
    "l1-sparse": {"epochs": 4, "lr": 2e-2, "batch": 64, "crop": 0},
    "COLA": {
        "collapse_epochs": 3,
        "align_epochs": 3,
        "collapse_lr": 1e-3,
        "align_lr": 1e-3,
        "batch": 128,
        "crop": 0,
    },
    "COLA+": {
        "collapse_epochs": 3,
        "align_epochs": 3,
        "collapse_lr": 1e-3,
        "align_lr": 1e-3,
        "retain_batch": 128,
        "forget_batch": 32,
        "crop": 0,
    },
    "Boundary Shrink": {"epochs": 2, "lr": 5e-4, "batch": 32, "crop": 0},
    "Boundary Expand": {"epochs": 2, "lr": 1e-3, "batch": 32, "crop": 0},
    "SSD": {"alpha": 3.0, "samples": 1000},
}

# What these methods had when the settings for CIFAR-10 were chosen and recorded; their defaults are the public code's.
_LAST: Fields = {"schedule": "constant", "weight_decay": 5e-4, "clip": None}
_WRONG: Fields = {"labels": "other"}
_DECAY: Fields = {"weight_decay": 5e-4}

# Of the settings tried on CIFAR-10 (one seed; all tries are in records/cifar10-methods-*/tries.csv) those with the
# least gap to Retrain in UA and TA.
SMALL_CLASS: dict[str, Fields] = {
    "HD": {"epochs": 1, "lr": 1e-2, "batch": 128},
    "FT": {"epochs": 1, "lr": 6e-4, "batch": 128},
    "RL": {"epochs": 1, "lr": 5e-3, "retain_batch": 128, "forget_batch": 32},
    "GA": {"epochs": 1, "lr": 2e-3, "retain_batch": 128, "forget_batch": 32},
    "Bad-T": {"epochs": 2, "lr": 1e-3, "batch": 128, "temperature": 0.1, "retain_share": 0.3},
    "EU-5": {"k": 5, "epochs": 2, "lr": 5e-2, "batch": 128, **_LAST},
    "EU-10": {"k": 10, "epochs": 4, "lr": 2e-2, "batch": 128, **_LAST},
    "CF-5": {"k": 5, "epochs": 2, "lr": 5e-2, "batch": 128, **_LAST},
    "CF-10": {"k": 10, "epochs": 2, "lr": 5e-2, "batch": 128, **_LAST},
    "SCRUB": {"epochs": 1, "forget_epochs": 1, "lr": 2e-3, "retain_batch": 128, "forget_batch": 128},
    "SALUN": {"epochs": 1, "lr": 5e-3, "retain_batch": 128, "forget_batch": 32, **_WRONG},
    "l1-sparse": {"epochs": 2, "lr": 2.5e-2, "batch": 128},
    "COLA": {
        "collapse_epochs": 4,
        "align_epochs": 1,
        "collapse_lr": 3e-3,
        "align_lr": 5e-4,
        "batch": 128,
    },
    "COLA+": {
        "collapse_epochs": 2,
        "align_epochs": 1,
        "collapse_lr": 3e-3,
        "align_lr": 1e-3,
        "retain_batch": 128,
        "forget_batch": 32,
    },
    "Boundary Shrink": {"epochs": 1, "lr": 1e-3, "batch": 64, **_DECAY},
    "Boundary Expand": {"epochs": 1, "lr": 3e-4, "batch": 64, **_DECAY},
    "SSD": {"alpha": 3.0, "samples": 1000},
    "UNSIR": {"lr": 5e-3, "repair_lr": 1e-3, "retain_batch": 128, "forget_batch": 128},
}

SMALL_RANDOM: dict[str, Fields] = {
    "HD": {"epochs": 1, "lr": 3e-2, "batch": 128},
    "FT": {"epochs": 1, "lr": 5e-4, "batch": 128},
    "RL": {"epochs": 1, "lr": 5e-3, "retain_batch": 128, "forget_batch": 32},
    "GA": {"epochs": 1, "lr": 2e-2, "retain_batch": 128, "forget_batch": 32},
    "Bad-T": {"epochs": 1, "lr": 1e-3, "batch": 128},
    "EU-5": {"k": 5, "epochs": 2, "lr": 5e-2, "batch": 128, **_LAST},
    "EU-10": {"k": 10, "epochs": 8, "lr": 5e-2, "batch": 128, **_LAST},
    "CF-5": {"k": 5, "epochs": 1, "lr": 1e-1, "batch": 128, **_LAST},
    "CF-10": {"k": 10, "epochs": 1, "lr": 1e-2, "batch": 128, **_LAST},
    "SCRUB": {"epochs": 1, "forget_epochs": 1, "lr": 3.5e-3, "retain_batch": 128, "forget_batch": 128},
    "SALUN": {"epochs": 1, "lr": 5e-3, "retain_batch": 128, "forget_batch": 32, **_WRONG},
    "l1-sparse": {"epochs": 1, "lr": 1e-2, "batch": 128},
    "COLA": {
        "collapse_epochs": 2,
        "align_epochs": 1,
        "collapse_lr": 1e-3,
        "align_lr": 5e-4,
        "batch": 128,
    },
    "COLA+": {
        "collapse_epochs": 2,
        "align_epochs": 1,
        "collapse_lr": 1e-3,
        "align_lr": 5e-4,
        "retain_batch": 128,
        "forget_batch": 32,
    },
    "Boundary Shrink": {"epochs": 1, "lr": 3e-4, "batch": 64, **_DECAY},
    "Boundary Expand": {"epochs": 1, "lr": 3e-4, "batch": 64, **_DECAY},
    "SSD": {"alpha": 1.6, "samples": 1000},
}
