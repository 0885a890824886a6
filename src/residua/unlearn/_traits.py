"""Traits: properties of a method that others may rely on without knowing its name."""

from __future__ import annotations

from dataclasses import dataclass, fields

from residua.roles import Role


@dataclass(frozen=True)
class Traits:
    """Properties of every model that a method makes.

    These are the defaults. A method that differs says so by a class attribute of the same name, such as
    `from_scratch = True`; other people's methods need not say anything.
    """

    # Nothing of Original's weights goes in: the method only needs Original's architecture.
    from_scratch: bool = False
    # Original's encoder is kept, bit for bit: whatever is read from features is Original's.
    keeps_encoder: bool = False
    # No part of the network but the head is trained: made within seconds, where others take minutes.
    quick: bool = False
    # A model that does nothing, or that collapses, is a fault of the settings.
    guarded: bool = True
    # A checkpoint is enough to rebuild the model.
    savable: bool = True
    # The part of its models in a study.
    role: Role = "method"
    # The kinds of `ForgetTask` that the method can do.
    scenarios: tuple[str, ...] = ("class", "random")


def traits(method: object) -> Traits:
    """The traits of a method, or of its class."""
    names = [field.name for field in fields(Traits)]
    return Traits(**{name: getattr(method, name) for name in names if hasattr(method, name)})
