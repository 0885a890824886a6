"""Statements: what the paper concludes, asked of our records and answered by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean

import numpy as np

from reproduction.labels import THIRTEEN
from reproduction.numbers import numbers_of
from reproduction.quantities import PAPER_EPOCHS, Reader, families_of
from residua.compare.information import ranks, spearman
from residua.roles import role_of

# What the project aims at: a rank correlation of this much, and methods that keep this much.
AIM = 0.8
KEEPS = 0.6
# COLA is among the lowest if no more than two are lower.
LOWEST = 3
# With fewer methods an order says little, and nothing is concluded from it.
ENOUGH = 8
# The row of the paper's own critics, read on the data that they were fitted on.
PAPERS = "the paper's own, on fitting data"
# Draws of methods for the interval of a rank correlation.
DRAWS = 1000
# TA may differ from Retrain's by so many points.
POINTS = 2.0


@dataclass(frozen=True)
class Statement:
    """A claim, whether our records bear it out (None: they do not say), and the numbers it rests on."""

    claim: str
    holds: bool | None
    evidence: str

    @property
    def answer(self) -> str:
        return "cannot be told" if self.holds is None else "seen" if self.holds else "not seen"


def paper_idi() -> dict[str, float]:
    """The paper's IDI of one class of CIFAR-10, ResNet-18, by method; HD's is 1 by construction."""
    rows = [n for n in numbers_of("tab:main_baseline") if n.setting.startswith("CIFAR-10") and n.quantity == "IDI"]
    return {"HD": 1.0} | {number.method: number.mean for number in rows if number.method in THIRTEEN}


def interval(left: Mapping[str, float], right: Mapping[str, float]) -> str:
    """The 95 % interval of their Spearman over draws of the methods with replacement, in words; "" where there is none."""
    names = [name for name in left if name in right]
    draws = np.random.default_rng(0).integers(0, max(len(names), 1), (DRAWS, len(names)))
    found = []
    for draw in draws:
        both = ({str(n): of[names[place]] for n, place in enumerate(draw)} for of in (left, right))
        if (one := spearman(*both)) is not None:
            found.append(one[0])
    if len(found) < DRAWS / 2:
        return ""
    low, high = np.quantile(found, [0.025, 0.975])
    return f", 95 % interval {low:.2f} to {high:.2f}"


def agreement(reader: Reader) -> dict[str, tuple[float, int] | None]:
    """Spearman between our IDI and the paper's, for every family of critics that was measured, the paper's own last.

    Nothing is compared with the paper across data sets.
    """
    if reader.group.dataset != reader.case.dataset:
        return {}
    theirs = paper_idi()
    found = {
        family: spearman(theirs, reader.idis(list(THIRTEEN), family=family)) for family in families_of(reader.group)
    }
    papers = reader.idis(list(THIRTEEN), papers=PAPER_EPOCHS)
    return found | {PAPERS: spearman(theirs, papers)} if papers else found


def statements(reader: Reader) -> list[Statement]:
    """All of them, for one group of models of one class forgotten by a ResNet-18."""
    index = reader.idis(list(THIRTEEN))
    checks: list[Callable[[Reader, Mapping[str, float]], Statement]] = [
        _head, _below("EU-10", "EU-5"), _below("CF-10", "CF-5"), _above, _cola, _recovery, _references, _theirs,
    ]  # fmt: skip
    return [check(reader, index) for check in checks]


def chance(reader: Reader) -> float | None:
    """The largest distance of a further Retrain's IDI from 0, which is that of the first; None if there is no further one."""
    _, *others = reader.group.references_of(reader.group.labelled("Original")[0])
    read = [reader.idi(each, last=reader.last or reader.case.last)[0] for each in others]
    return max((abs(value) for value in read if value is not None), default=None)


def _head(reader: Reader, index: Mapping[str, float]) -> Statement:
    last = reader.last or reader.case.last
    read = [reader.idi(model, last=last)[0] for model in reader.models("HD")]
    values = [value for value in read if value is not None]
    words = ", ".join(f"{value:.2f}" for value in values) or "no record"
    return Statement("HD has IDI 1.00 exactly", all(v == 1.0 for v in values) if values else None, words)


def _below(lower: str, upper: str) -> Callable[[Reader, Mapping[str, float]], Statement]:
    def check(reader: Reader, index: Mapping[str, float]) -> Statement:
        claim = f"{lower} below {upper}"
        if lower not in index or upper not in index:
            return Statement(claim, None, "no record of one of them")
        spreads = (chance(reader), *(reader(label, "IDI").std for label in (lower, upper)))
        told = abs(index[lower] - index[upper]) > max(each or 0.0 for each in spreads)
        words = f"{index[lower]:.2f} and {index[upper]:.2f}"
        return Statement(claim, index[lower] < index[upper] if told else None, words)

    return check


def _above(reader: Reader, index: Mapping[str, float]) -> Statement:
    wanted = ("RL", "SALUN", "Bad-T")
    there = {label: index[label] for label in wanted if label in index}
    holds = all(value > KEEPS for value in there.values()) if len(there) == len(wanted) else None
    words = ", ".join(f"{label} {value:.2f}" for label, value in there.items()) or "no record"
    return Statement(f"RL, SALUN and Bad-T above {KEEPS}", holds, words)


def _retrained(reader: Reader) -> float | None:
    """TA of the retrained models, the mean over all of them: one alone has luck of its own."""
    labels = dict.fromkeys(model.label for model in reader.group.models if role_of(model.label) == "reference")
    read = [each.mean for label in labels if (each := reader(label, "TA")).mean is not None]
    return mean(read) if read else None


def _cola(reader: Reader, index: Mapping[str, float]) -> Statement:
    claim = f"COLA among the {LOWEST} lowest of those whose TA is within {POINTS:g} points of the Retrains' mean"
    zero = _retrained(reader)
    useful = {}
    for label, value in index.items():
        accuracy = reader(label, "TA").mean
        if zero is not None and accuracy is not None and abs(accuracy - zero) <= POINTS:
            useful[label] = value
    if "COLA" not in useful:
        why = "no record" if "COLA" not in index or zero is None else "its own TA is further off"
        return Statement(claim, None if why == "no record" else False, why)
    place = ranks(useful)["COLA"]
    lower = [label for label, value in useful.items() if value < useful["COLA"]]
    words = f"place {place} of {len(useful)}" + (f", after {', '.join(lower)}" if lower else "")
    return Statement(claim, place <= LOWEST if len(index) >= ENOUGH else None, words)


def _recovery(reader: Reader, index: Mapping[str, float]) -> Statement:
    claim = f"recovery and IDI agree in rank (Spearman, aim {AIM})"
    read = {label: reader(label, "recovery").mean for label in index}
    return _correlated(claim, index, {label: value for label, value in read.items() if value is not None})


def _theirs(reader: Reader, index: Mapping[str, float]) -> Statement:
    claim = f"our IDI and the paper's agree in rank (Spearman, aim {AIM})"
    if reader.group.dataset != reader.case.dataset:
        return Statement(claim, None, "other data")
    return _correlated(claim, paper_idi(), index)


def _correlated(claim: str, left: Mapping[str, float], right: Mapping[str, float]) -> Statement:
    found = spearman(left, right)
    if found is None:
        return Statement(claim, None, "too few records")
    holds = found[0] >= AIM if found[1] >= ENOUGH else None
    return Statement(claim, holds, f"{found[0]:.2f} over {found[1]}{interval(left, right)}")


def _references(reader: Reader, index: Mapping[str, float]) -> Statement:
    """Each retrained model by itself, and other models in its place."""
    claim = "the order of methods is the same for every reference"
    orders: dict[str, dict[str, float]] = {}
    for label in dict.fromkeys(model.label for model in reader.group.models):
        if role_of(label) == "reference" or label in ("COLA", "EU-10"):
            orders[label] = reader.idis(
                [each for each in index if each not in ("COLA", "EU-10")], reference=label, alone=True
            )
    orders = {label: values for label, values in orders.items() if len(values) > 2}
    if len(orders) < 2:
        return Statement(claim, None, "one reference only")
    first, *others = orders.values()
    same = all(ranks(first) == ranks(other) for other in others)
    least = min((found[0] for other in others if (found := spearman(first, other))), default=1.0)
    words = f"{len(orders)} references, Spearman {least:.2f}"
    return Statement(claim, same, words)
