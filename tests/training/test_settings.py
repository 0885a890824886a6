"""Fields that describe themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import pytest

import residua as rs
from residua.controls.cheats import CHEATS
from residua.measure import MEASURES
from residua.study.tuning import ranges
from residua.training import recipes
from residua.training.settings import (
    Checked,
    Choice,
    Count,
    Epochs,
    Rate,
    Setting,
    Share,
    Temperature,
    described,
    directions,
)
from residua.unlearn import METHODS

if TYPE_CHECKING:
    from nowhere import Unknown


@dataclass(frozen=True)
class Mine(Checked):
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 1e-3
    epochs: Annotated[int, Epochs("Passes.", tune=(2, 5))] = 3
    share: Annotated[float, Share("Share.")] = 0.5
    inner: Annotated[float, Share("Share.", below=1)] = 0.5
    samples: Annotated[int | None, Count("Samples.")] = None
    temperature: Annotated[float, Temperature("Temperature.", stronger="less")] = 1.0
    mode: Annotated[Literal["soft", "hard"], Choice("Mode.")] = "soft"
    views: Annotated[int, Count("Views.", most=2)] = 1
    plain: float = 0.0
    kind: Literal["a", "b"] = "a"

    label = "Mine"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("lr", -1, "lr is -1, expected 0 or more"),
        ("lr", float("nan"), "lr is nan, expected 0 or more"),
        ("share", 0, "share is 0, expected above 0 and up to 1"),
        ("share", 1.5, "share is 1.5, expected above 0 and up to 1"),
        ("inner", 1, "inner is 1, expected above 0 and below 1"),
        ("samples", 0, "samples is 0, expected 1 or more"),
        ("temperature", 0, "temperature is 0, expected above 0"),
        ("mode", "loud", "mode 'loud' is unknown; choose soft or hard"),
        ("kind", "c", "kind 'c' is unknown; choose a or b"),
        ("views", 3, "views is 3, expected 1 to 2"),
    ],
)
def test_a_value_outside_of_what_its_field_says_is_refused(name, value, sentence):
    with pytest.raises(rs.InputError) as refused:
        Mine(**{name: value})
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "fields", [{}, {"samples": 1}, {"share": 1}, {"lr": 0}, {"views": 2}, {"plain": -7.0}, {"mode": "hard"}]
)
def test_values_within_the_bounds_pass(fields):
    Mine(**fields)


def test_only_fields_that_say_so_are_tuned_over_their_own_range():
    own = ranges(Mine())
    assert {name: (r.low, r.high, r.whole) for name, r in own.items()} == {
        "lr": (1e-5, 1e-2, False),
        "epochs": (2, 5, True),
    }
    asked = ranges(Mine(), epochs=9, low=1e-4, high=1e-1)
    assert (asked["epochs"].high, asked["lr"].low, asked["lr"].high) == (9, 1e-4, 1e-1)
    for wrong in ({"low": 0.0}, {"low": 1.0}, {"epochs": 1}, {"high": float("nan")}):
        with pytest.raises(rs.InputError, match="would be drawn from"):
            ranges(Mine(), **wrong)


def recipes_of_all_scales():
    for (scale, scenario), table in recipes.OURS.items():
        yield f"{scale} {scenario}", table
    for scenario, datasets in rs.recipes.UNLEARNING.items():
        for dataset, networks in datasets.items():
            for network, table in networks.items():
                yield f"{scenario} {dataset} {network}", table


def test_every_recipe_and_every_default_is_in_the_range_that_tune_searches():
    outside, seen = [], 0
    for where, table in [("defaults", {m.label: {} for m in METHODS}), *recipes_of_all_scales()]:
        for label, fields in table.items():
            method = rs.unlearn.find(label, **fields)
            searched = {n for n, f in described(type(method)).items() if f.setting.tune is not None}
            for name, of_field in (ranges(method) if searched else {}).items():
                value = getattr(method, name)
                if value is None:  # worked out from the task
                    assert (label, name) == ("SSD", "alpha")
                    continue
                seen += 1
                if not of_field.holds(value):
                    outside.append((where, label, name, value))
    assert outside == []
    assert seen > 200


def test_stronger_is_what_the_field_says():
    assert directions(Mine()) == {"lr": "more", "temperature": "less"}
    assert directions(rs.unlearn.SynapticDampening()) == {"alpha": "less", "dampening": "less"}


@pytest.mark.parametrize(
    "kind",
    [*dict.fromkeys(type(method) for method in METHODS), *MEASURES, rs.Pretraining, *map(type, CHEATS.values())],
    ids=lambda kind: kind.__name__,
)
def test_every_field_of_ours_says_what_it_is(kind):
    silent = [name for name, field in described(kind).items() if not field.setting.help]
    assert silent == []


def test_a_field_whose_type_cannot_be_resolved_still_works():
    @dataclass(frozen=True)
    class Odd:
        strength: Unknown = 1.0

    assert described(Odd)["strength"].type is float
    assert described(Odd)["strength"].setting == Setting()
