"""Known methods on pages: their values are what the paper prints."""

from __future__ import annotations

import pytest

from reproduction import numbers_of
from residua.report.text import CLASS, SAMPLES

SETTING = "CIFAR-10 - ResNet-18"


def printed(table: str, setting: str) -> dict[str, float]:
    return {n.method: n.mean for n in numbers_of(table) if n.setting == setting and n.quantity == "IDI"}


@pytest.mark.parametrize(
    ("known", "tables"),
    [
        (CLASS, [("single_class_cifar10", SETTING), ("main_baseline", "CIFAR-10 (single class)")]),
        (SAMPLES, [("random_sample_unlearning", SETTING)]),
    ],
)
def test_known_methods_are_those_of_the_tables(known, tables):
    paper = {name: value for each in tables for name, value in printed(*each).items()}
    assert known.methods == {name: paper[name] for name in paper if name not in ("Original", "Retrain")}


def test_random_is_that_of_the_table():
    assert CLASS.random in [n.mean for n in numbers_of("main_white") if n.method == "Random" and n.quantity == "IDI"]
