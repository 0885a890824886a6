"""Quantities: each column of the paper's tables, computed from stored readings of one group of models."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, stdev

from reproduction.cases import Case, by_paper
from reproduction.record_index import Group, Model
from residua.compare import mean_curve, metrics
from residua.compare.information import idi_value, ranks
from residua.errors import InputError
from residua.readings import Curve

# The paper's column, our metric, and what it is multiplied by: per cent, minutes.
PLAIN = {
    "UA": ("UA", 100.0),
    "RA": ("RA", 100.0),
    "TA": ("TA", 100.0),
    "MIA": ("E-MIA", 100.0),
    "JSD": ("JSD_paper", 1.0),
    "ZRF": ("ZRF", 1.0),
    "AUS": ("AUS", 1.0),
    "recovery": ("recovery", 100.0),
    "activation_MIA": ("A-MIA", 100.0),
    "gradient_MIA": ("G-MIA", 100.0),
}
MINUTE = 60.0
# Passes of the paper's critics, unless it is asked how they matter.
PAPER_EPOCHS = 10
# The label of the curve that IDI is read from, where it has the blocks.
MAIN = "information"


@dataclass(frozen=True)
class Found:
    """A quantity of our models: mean, standard deviation where there are several, their number; or why there is nothing."""

    mean: float | None = None
    std: float | None = None
    n: int = 0
    why: str = ""


def found(values: list[float], why: str = "") -> Found:
    if not values:
        return Found(why=why)
    return Found(mean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(eq=False)
class Reader:
    """Answers for one group. `reference` names the zero of IDI, `last` the number of last blocks, `family` the critics.

    With `reference` Retrain and several retrained models, zero is the first of them; `all` is the mean of them all.
    """

    group: Group
    case: Case
    reference: str = "Retrain"
    last: int | None = None
    family: str | None = None

    def models(self, label: str) -> list[Model]:
        return self.group.labelled(label)

    def __call__(self, label: str, quantity: str) -> Found:
        """The models of this label in the column `quantity` of the paper."""
        models = self.models(label)
        if not models:
            return Found(why=f"no record of {label}")
        if quantity in PLAIN:
            return self._plain(models, quantity)
        for pattern, how in _PATTERNS:
            match = re.fullmatch(pattern, quantity)
            if match:
                return how(self, models, *match.groups())
        return Found(why=f"{quantity} is not known here")

    def _plain(self, models: list[Model], quantity: str) -> Found:
        name, factor = PLAIN[quantity]
        read = [self.metrics(model) for model in models]
        why = next((notes[name] for _, notes in read if name in notes), f"{name} was not measured")
        return found([factor * values[name] for values, _ in read if name in values], why)

    def metrics(self, model: Model) -> tuple[dict[str, float], dict[str, str]]:
        """Every metric but IDI, and notes on those that are missing."""
        key = ("metrics", self._zero())
        if key not in model.known:
            original = self.group.original_of(model)
            references = self.group.references_of(model, self._zero())
            without = [
                {} if each is None else {k: v for k, v in each.readings.items() if not isinstance(v, Curve)}
                for each in (model, original, next(iter(references), None))
            ]
            reading = metrics(without[0], original=without[1] or None, reference=without[2] or None)
            model.known[key] = dict(reading.values), dict(reading.notes)
        known: tuple[dict[str, float], dict[str, str]] = model.known[key]
        return known

    def _zero(self) -> str:
        return "Retrain" if self.reference == "all" else self.reference

    def idi(
        self,
        model: Model,
        *,
        last: int | None = None,
        reference: str | None = None,
        family: str | None = None,
        ratio: str | None = None,
        alone: bool = False,
        papers: int = 0,
    ) -> tuple[float | None, str]:
        """IDI of one model, or why there is none.

        `alone` takes the reference of exactly this label, of its own draw; `papers` reads the paper's own
        critics, of so many epochs.
        """
        key = ("IDI", last, reference or self.reference, family or self.family, ratio, alone, papers)
        if key not in model.known:
            model.known[key] = self._computed(model, *key[1:])
        value: tuple[float | None, str] = model.known[key]
        return value

    def _computed(
        self,
        model: Model,
        last: int | None,
        label: str,
        family: str | None,
        ratio: str | None,
        alone: bool,
        papers: int,
    ) -> tuple[float | None, str]:
        references = self.group.references_of(model, "Retrain" if label == "all" else label)
        if alone:
            references = [each for each in references if each.label == label]
        original = self.group.original_of(model)
        if original is None or not references:
            return None, f"no record of {'Original' if original is None else label}"
        zeros = references if label == "all" else [references[0]]
        try:
            curves = [self.curve(each, last, ratio, papers) for each in (model, original, *zeros)]
            value = idi_value(curves[0], original=curves[1], reference=mean_curve(curves[2:]), last=last, family=family)
        except InputError as error:
            return None, str(error)
        why = "Original does not clearly know more than the reference, so IDI is undetermined"
        return value, "" if value is not None else why

    def curve(self, model: Model, last: int | None = None, ratio: str | None = None, papers: int = 0) -> Curve:
        """The curve of so many blocks at this ratio: the main one where it has them, else another one that does.

        Without a ratio it is the main curve, then one of all samples, then one of as few blocks as will do; the same
        for every model that was measured alike.
        """
        fitting = [
            (label != MAIN, _ratio(curve) != "all", len(curve.blocks), label)
            for label, curve in model.curves.items()
            if (ratio is None or _ratio(curve) == ratio)
            and _epochs(curve) == papers
            and len(curve.blocks) >= (last or 1)
        ]
        if not fitting:
            wanted = f"{last or 'any'} blocks" + (f" at the ratio {ratio}" if ratio else "")
            raise InputError(f"{model.label} has no curve of {wanted}; measure one first")
        return model.curves[min(fitting)[-1]]

    def _idi(self, models: list[Model], **how: object) -> Found:
        last = how.pop("last", None) or self.last or self.case.last
        read = [self.idi(model, last=last, **how) for model in models]  # type: ignore[arg-type]
        why = next((why for value, why in read if value is None), "")
        return found([value for value, _ in read if value is not None], why)

    def idis(self, labels: list[str], **how: object) -> dict[str, float]:
        """Mean IDI of each of these methods that has one."""
        read = {label: self._idi(self.models(label), **dict(how)) for label in labels if self.models(label)}
        return {label: each.mean for label, each in read.items() if each.mean is not None}

    def _order(self, models: list[Model]) -> Found:
        labels = list(dict.fromkeys(m.label for m in self.group.models))
        places = ranks(self.idis([label for label in labels if label not in ("Original", "Retrain", "Random", "HD")]))
        label = models[0].label
        return Found(float(places[label]), None, len(models)) if label in places else Found(why="no IDI")

    def _minutes(self, models: list[Model], block: str | None = None, ratio: str = "all") -> Found:
        if block is None:
            values = [m.seconds["RTE"] / MINUTE for m in models if "RTE" in m.seconds]
            return found(values, "run time was not recorded")
        values = [
            model.seconds[f"{name}.block{block}"] / MINUTE
            for model in models
            for name, curve in model.curves.items()
            if _ratio(curve) == ratio and not by_paper(curve) and f"{name}.block{block}" in model.seconds
        ]
        return found(values, f"seconds of block {block} at the ratio {ratio} were not recorded")

    def block(self, models: list[Model], block: int, what: str = "information") -> Found:
        """I(Z_l; Y), or how often critics name the label, in one block."""
        curves = []
        for model in models:
            try:
                curves.append(self.curve(model, self.case.blocks - block + 1))
            except InputError as error:
                return Found(why=str(error))
        offset = self.case.blocks - block
        values = [getattr(curve, what)[curve.blocks[-1 - offset]] for curve in curves]
        return found(values)

    def _spread(self, models: list[Model], block: str) -> Found:
        return _std(self.block(models, int(block)))


def _std(of: Found) -> Found:
    if of.std is None:
        return Found(why=of.why or "one model has no spread; at least two seeds are needed")
    return Found(of.std, None, of.n)


def _epochs(curve: Curve) -> int:
    """Epochs of the paper's critics; 0 for others."""
    return int(curve.about["measure"].get("epochs", PAPER_EPOCHS)) if by_paper(curve) else 0


def _ratio(curve: Curve) -> str:
    return str(curve.about.get("measure", {}).get("ratio", "all"))


def families_of(group: Group) -> list[str]:
    """Families of the curves that are read on unseen data."""
    curves = [curve for model in group.models for curve in model.curves.values() if not by_paper(curve)]
    return list(dict.fromkeys(name for curve in curves for name in curve.families))


def _full(reader: Reader, models: list[Model]) -> Found:
    return reader._idi(models, last=reader.case.blocks)


# FT* is FT with a larger learning rate, for the reference alone; a study names it so.
_PATTERNS: tuple[tuple[str, Callable[..., Found]], ...] = (
    (r"IDI", lambda r, m: r._idi(m)),
    (r"IDI full", _full),
    (r"IDI n=(\d+)", lambda r, m, n: r._idi(m, last=int(n))),
    (r"IDI ref=(.+)", lambda r, m, ref: r._idi(m, reference=ref)),
    (r"IDI ratio=(.+)", lambda r, m, ratio: r._idi(m, ratio=ratio)),
    (r"IDI family=(.+)", lambda r, m, family: r._idi(m, family=family)),
    (r"std IDI", lambda r, m: _std(r._idi(m))),
    (r"std Block(\d+)", lambda r, m, block: r._spread(m, block)),
    (r"std (1:\d+)", lambda r, m, ratio: _std(r._idi(m, ratio="all" if ratio == "1:99" else ratio))),
    (r"RTE_min", lambda r, m: r._minutes(m)),
    (r"Block(\d+)_min (.+)", lambda r, m, block, ratio: r._minutes(m, block, ratio)),
    (r"I Block(\d+)", lambda r, m, block: r.block(m, int(block))),
    (r"accuracy Block(\d+)", lambda r, m, block: r.block(m, int(block), "accuracy")),
    (r"order", lambda r, m: r._order(m)),
)
