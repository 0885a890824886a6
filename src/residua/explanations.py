"""Explanations: the meaning of every metric, read from `metrics.json`. Adding a metric is one entry there.

Reports, tables and `residua explain` use them; nothing here needs PyTorch. A plug-in's module has its own tuple
`EXPLANATIONS`, in which the label of the plug-in's measure may be left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import resources
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter

from residua import plugins
from residua.errors import InputError

Box = Literal["black", "cost", "white"]
Unit = Literal["share", "nats", "number", "mini-batches", "seconds"]
Parts = Literal["none", "attacker", "blocks", "classes", "whole"]
NEARER = "nearer the reference"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A metric: its definition, its better side, and its blind spots.

    Args:
        box: `black` if outputs suffice, `white` if the network's inside is needed, `cost` for neither.
        better: The better side, in words; `better_of` names parts whose better side differs.
        ideal: The value of a model that forgot.
        blind: Differences between models that the metric does not show.
        elsewhere: Its names and conventions in other papers and code.
        measures: Labels of the measures that it is computed from.
        against: The other models that it needs, one of which is enough with `either`.
        parts: The kind of part that may follow the name after a dot.
        aliases: Other names under which `residua explain` finds it.
    """

    name: str
    title: str
    box: Box
    definition: str
    formula: str
    range: str
    better: str = NEARER
    ideal: str
    blind: str
    source: str
    elsewhere: str = ""
    unit: Unit = "share"
    measures: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    either: bool = False
    parts: Parts = "none"
    aliases: tuple[str, ...] = ()
    better_of: tuple[tuple[str, str], ...] = ()

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


def explanations() -> tuple[Explanation, ...]:
    """Every metric: the package's own, and those of the plug-ins that were loaded so far."""
    theirs = [(label, entry) for label, entries in plugins.explanations().items() for entry in entries]
    named = (each if each.measures else dataclasses.replace(each, measures=(label,)) for label, each in theirs)
    return (*METRICS, *named)


def explanation(word: str) -> Explanation:
    """The explanation of a metric or of a part of it, ignoring case."""
    entry = explained(word)
    if entry is None:
        known = ", ".join(entry.name for entry in explanations())
        raise InputError(f"there is no metric {word!r}; choose one of {known}")
    return entry


def explained(name: str) -> Explanation | None:
    """The explanation of a metric, or of a part of it, by name or alias, ignoring case; None for a value that has none."""
    theirs = explanations()[len(METRICS) :]
    names = OWN_NAMES | {word.lower(): entry for entry in theirs for word in (entry.name, *entry.aliases)}
    return names.get(name.lower()) or names.get(name.partition(".")[0].lower())


# By box (outputs, cost, inside); measures before comparisons.
METRICS = TypeAdapter(tuple[Explanation, ...]).validate_json(
    resources.files("residua").joinpath("metrics.json").read_bytes()
)
OWN_NAMES = {word.lower(): entry for entry in METRICS for word in (entry.name, *entry.aliases)}
