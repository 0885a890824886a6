"""Explanation: what a metric means. Each one stands in the file of the measure or comparison that makes the metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Box = Literal["black", "cost", "white"]
Unit = Literal["share", "nats", "number", "mini-batches", "seconds"]
Parts = Literal["none", "attacker", "blocks", "classes", "whole"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A metric: what it is, which way is good, what it cannot see.

    `measures` are the labels of the measures that it is computed from; in a measure's own file they can be left
    out. `against` are the other models that it needs, `either` if one of the two is enough. `parts` says what may
    follow the name behind a dot, and `better_of` which parts have another better side.
    """

    name: str
    title: str
    box: Box
    definition: str
    formula: str
    range: str
    better: str
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

    def side(self, name: str) -> str:
        """Which side is better, in words, of the metric or of a part of it."""
        parts = name.split(".")[1:]
        return next((words for part, words in self.better_of if part in parts), self.better)


# What several explanations say.
NEARER = "nearer the reference"
HEAD = "A changed head is enough: head distillation passes it with Original's encoder untouched."
ATTACKER_PARTS = (
    "Behind a dot: the attacker's own accuracy, AUC and TPR at low FPR on held-out members and others. "
    "Is that accuracy near 0.5? Then ignore the headline value."
)
QUALITY = (
    ("accuracy", "neither: the attacker's skill"),
    ("AUC", "neither: the attacker's skill"),
    ("TPR@1e-2", "neither: the attacker's skill"),
    ("TPR@1e-3", "neither: the attacker's skill"),
)
