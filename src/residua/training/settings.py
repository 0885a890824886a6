"""Settings that describe themselves: the meaning of a field, its allowed values, and the range that `tune` searches.

    lr: Annotated[float, Rate("Learning rate.")] = 1e-3

The command line, `tune`, `explain` and the guards read all they need from here, for methods and measures of other
people too. A field without such a note works: it only has less to say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from residua.errors import InputError

Schedule = Literal["constant", "cosine", "restarts", "steps"]
Way = Literal["", "more", "less"]


@dataclass(frozen=True)
class Setting:
    """A field's note about itself.

    A value is at least `least` and at most `most`, or strictly `above` and `below`. `tune` is the range that a
    search may draw from, log-uniformly; None keeps the field out of searches.
    `stronger` says whether more of it, or less, unlearns more.
    """

    help: str = ""
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    tune: tuple[float, float] | None = None
    stronger: Way = ""

    def refusal(self, value: float) -> str:
        """The bounds in words, if the value is outside of them; else nothing."""
        if self.least > -math.inf and self.most < math.inf:
            bounds = f"{self.least:g} to {self.most:g}"
        else:
            lower = f"{self.least:g} or more" if self.least > -math.inf else ""
            lower = f"above {self.above:g}" if self.above > -math.inf else lower
            upper = f"up to {self.most:g}" if self.most < math.inf else ""
            upper = f"below {self.below:g}" if self.below < math.inf else upper
            bounds = " and ".join(filter(None, (lower, upper)))
        if not bounds:  # the value need not be a number
            return ""
        inside = self.least <= value <= self.most
        inside = inside and not (value <= self.above > -math.inf) and not (value >= self.below < math.inf)
        return "" if inside else bounds


@dataclass(frozen=True)
class Rate(Setting):
    """A learning rate. The range is that of the paper's grid; a search widens it to hold the method's own value."""

    least: float = 0
    tune: tuple[float, float] | None = (1e-5, 1e-2)


@dataclass(frozen=True)
class Epochs(Setting):
    """Passes over data."""

    least: float = 0
    tune: tuple[float, float] | None = (1, 10)


@dataclass(frozen=True)
class Count(Setting):
    """A number of things; at least one, unless the field says otherwise."""

    least: float = 1


@dataclass(frozen=True)
class Share(Setting):
    """A fraction: above 0, and up to 1."""

    above: float = 0
    most: float = 1


@dataclass(frozen=True)
class Weight(Setting):
    """A factor or a size that cannot be negative."""

    least: float = 0


@dataclass(frozen=True)
class Temperature(Setting):
    """Divisor of logits or similarities."""

    above: float = 0


@dataclass(frozen=True)
class Choice(Setting):
    """One of the values of the field's Literal, or yes and no."""


@dataclass(frozen=True)
class Seed(Setting):
    """Same seed, same draws."""

    help: str = "Seed of everything that is drawn."


# Fields that mean the same wherever they occur.
Passes = Annotated[int, Epochs("Passes over the data.", stronger="more")]
LearningRate = Annotated[float, Rate("Learning rate.", stronger="more")]
Batch = Annotated[int, Count("Samples in a step.")]
RetainBatch = Annotated[int, Count("Retain samples in a step.")]
ForgetBatch = Annotated[int, Count("Forget samples in a step.")]
Momentum = Annotated[float, Weight("Momentum of SGD.")]
WeightDecay = Annotated[float, Weight("L2 penalty on the weights.")]
Scheduled = Annotated[
    Schedule,
    Choice(
        "Course of the learning rate: constant, half a cosine, cosines that restart after 1, 3, 7, ... epochs, or a "
        "tenth after 3, 5 and 9."
    ),
]
# Any class but the sample's own and the forgotten ones, or all classes alike.
Labels = Literal["other", "uniform"]
WrongLabels = Annotated[Labels, Choice("Classes that random labels are drawn from: other than the forgotten, or all.")]
OptimizerName = Literal["sgd", "adam"]
Optimizer = Annotated[OptimizerName, Choice("Optimizer: SGD with momentum and weight decay, or Adam without.")]
Crop = Annotated[
    int,
    Weight("Black border, in pixels, of the random crop; of large image files, any but 0 is a random resized crop."),
]
Flip = Annotated[bool, Choice("Random horizontal flip.")]
KeepStatistics = Annotated[bool, Choice("Every BatchNorm normalises by Original's mean and variance.")]


@dataclass(frozen=True)
class Described:
    """A field: its type without notes, its note, and the values of a Literal; none for any other type."""

    type: Any
    setting: Setting
    choices: tuple[Any, ...]

    @property
    def whole(self) -> bool:
        """True if values are whole numbers."""
        return self.type is int or int in _members(self.type)


@functools.lru_cache(maxsize=256)
def described(kind: Any) -> dict[str, Described]:
    """The note of each field of a dataclass, in the order of definition."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # names that only a type checker sees; types are then those of the defaults
        hints = {}
    found = {}
    for field in fields(kind):
        hint = hints.get(field.name, type(field.default))
        plain, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        settings = (note for note in notes if isinstance(note, Setting))
        choices = get_args(plain) if get_origin(plain) is Literal else ()
        found[field.name] = Described(plain, next(settings, Setting()), choices)
    return found


class Checked:
    """A dataclass that refuses values which the notes on its fields do not allow."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, field in described(kind).items():
            value = getattr(self, name)
            if field.choices and value not in field.choices:
                choices = _listed([str(choice) for choice in field.choices])
                raise InputError(f"{name} {value!r} is unknown; choose {choices}")
            if value is not None and (bounds := field.setting.refusal(value)):
                raise InputError(f"{name} is {value}, expected {bounds}")


def directions(method: object) -> dict[str, Way]:
    """The fields that make a method stronger, and whether more or less of them does."""
    kind: Any = type(method)
    fields_of = described(kind).items()
    return {name: field.setting.stronger for name, field in fields_of if field.setting.stronger}


def _members(hint: Any) -> Iterable[Any]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else ()


def _listed(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)
