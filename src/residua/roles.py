"""Roles of models, in an audit (unlearned, original, start, reference, reference2, ..., random) and in a study."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

ROLES = ("unlearned", "original", "start", "reference", "random")


# The part of a model in a study: Original, references and Random are compared with, controls have a known truth.
Role = Literal["original", "reference", "random", "control", "method"]


def role_of(label: str) -> Role:
    """The role of a model whose record declares none, by its label: Original, Retrain, Retrain 2, ..., Random."""
    if re.fullmatch(r"Retrain( [2-9]| [1-9]\d+)?", label):
        return "reference"
    return {"Original": "original", "Random": "random"}.get(label, "method")  # type: ignore[return-value]


def reference_role(number: int) -> str:
    """The role of reference 1, 2, ...: reference, reference2, ..."""
    return "reference" if number == 1 else f"reference{number}"


def references_in(names: Iterable[str]) -> list[str]:
    """The roles of the references among these, in their order."""
    own = [name for name in names if re.fullmatch(r"reference([2-9]|[1-9][0-9]{1,3})?", name)]
    return sorted(own, key=lambda name: int(name.removeprefix("reference") or 1))


def roles_in(names: Iterable[str]) -> list[str]:
    """The roles that an audit knows among these, in the order of a report."""
    names = list(names)
    return [
        role for each in ROLES for role in (references_in(names) if each == "reference" else [each] * (each in names))
    ]
