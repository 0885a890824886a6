"""Roles: declared by a row, else by the method, else by the label of an older record."""

from __future__ import annotations

import pytest

from residua.controls.cheats import LogitMasking
from residua.record import MethodFacts, Record, Setting
from residua.roles import role_of
from residua.study import Row
from residua.unlearn import FineTune, Original, Random, Retrain


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("Original", "original"),
        ("Random", "random"),
        ("Retrain", "reference"),
        ("Retrain 2", "reference"),
        ("Retrain 13", "reference"),
        ("Retrain 1", "method"),
        ("Retrain 02", "method"),
        ("Further Retrain", "method"),
        ("COLA", "method"),
    ],
)
def test_a_record_without_a_role_has_that_of_its_label(label, role):
    assert role_of(label) == role
    record = Record(name="a", setting=Setting(), method=MethodFacts(label=label), seeds={}, readings={})
    assert record.role == role
    assert "role" not in record.model_dump(mode="json")["method"], "nothing is written that nobody declared"


@pytest.mark.parametrize(
    ("row", "role"),
    [
        (Row("Original", Original()), "original"),
        (Row("Random", Random()), "random"),
        (Row("Retrain", Retrain()), "reference"),
        (Row("Retrain 2", Retrain(), draw=1), "reference"),
        (Row("Second Retrain", Retrain(), draw=1), "control"),
        (Row("Another", Retrain(), draw=1, role="reference"), "reference"),
        (Row("Masking", LogitMasking()), "control"),
        (Row("FT*", FineTune()), "method"),
    ],
)
def test_a_row_has_the_role_that_it_declares_or_that_of_its_method(row, role):
    assert row.part == role
