"""The paper's numbers are there as printed."""

from __future__ import annotations

import pytest

import residua as rs
from reproduction import numbers_of, table_labels


def test_a_known_cell_is_as_printed():
    found = {(n.setting, n.method, n.quantity): n.mean for n in numbers_of("single_class_cifar10")}
    assert found["CIFAR-10 - ResNet-18", "Original", "TA"] == 95.46


def test_every_table_has_numbers_and_the_prefix_is_optional():
    assert "tab:main_baseline" in table_labels()
    for label in table_labels():
        assert numbers_of(label) == numbers_of(label.removeprefix("tab:"))


def test_an_unknown_table_is_refused_with_those_there_are():
    with pytest.raises(rs.InputError, match="main_baseline"):
        numbers_of("tab:nothing")
