"""Seeds: which number every random thing of a study starts from.

One policy for all studies. Original number s is trained from s. Whatever is made from scratch (Retrain, Random) has
seeds of its own, because a Retrain that draws what Original drew would not be independent of it; a second Retrain is
draw 1. Unlearning has others again. Estimation has none here: the measures carry their own `seed`, the same for
every model of a study, so that equal models have equal readings.
"""

from __future__ import annotations

import hashlib
import json

from residua.errors import InputError

# More Originals than this in one study would share seeds with Retrains.
MOST = 1_000_000


def training(original: int) -> int:
    """The seed of Original number `original`."""
    if not 0 <= original < MOST:
        raise InputError(f"seed {original} is not usable in a study; choose one from 0 to {MOST - 1}")
    return original


def from_scratch(original: int, draw: int = 0) -> int:
    """The seed of the Retrain, or the random network, that is compared with Original number `original`."""
    return (1 + draw) * MOST + training(original)


def unlearning(original: int, draw: int = 0) -> int:
    """The seed of an unlearning run that starts from Original number `original`."""
    return (1000 + draw) * MOST + training(original)


def search(original: int) -> int:
    """The seed of a search for settings, whose trials start from Original number `original`; it has 32 bits."""
    return derived("search", training(original)) % 2**32


def derived(*what: object) -> int:
    """A seed for one of many things that are numbered in several ways, such as shadow models and their forget sets."""
    return int(hashlib.sha256(json.dumps(what).encode()).hexdigest()[:15], 16)
