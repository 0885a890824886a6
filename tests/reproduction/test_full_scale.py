"""Every cell of the paper has its settings: pretraining, recipes of every method, and critics."""

from __future__ import annotations

import pytest

from reproduction import numbers_of, table_labels
from reproduction.cases import case_of
from reproduction.figure_list import FIGURES
from residua.measure.information.paper_protocol import paper_lr
from residua.training.recipes import PAPER, pretraining, unlearning

CASES = {case_of(label, number.setting) for label in table_labels() for number in numbers_of(label)}
CASES |= {case for spec in FIGURES for case in spec.cases}


@pytest.mark.parametrize("case", sorted(CASES, key=str), ids=str)
def test_a_cell_has_the_papers_settings(case):
    assert pretraining("full", case.dataset, case.network) == PAPER[case.dataset, case.network]
    recipes = unlearning("full", case.scenario, case.dataset, case.network)
    methods = {
        number.method
        for label in table_labels()
        for number in numbers_of(label)
        if case_of(label, number.setting) == case and not number.quantity.endswith("Block1_min")
    }
    shares = {"10%", "Full"}  # the rows of the table of run times
    assert methods - {"Original", "Retrain", "Random", "HD", *shares} <= recipes.keys()
    assert 0 < paper_lr(case.dataset, case.network) <= 2e-5
    assert case.last == (2 if case.network == "resnet18" else 3)


def test_the_settings_of_tables_are_understood():
    assert len(CASES) == 13
    assert {case.classes for case in CASES} == {1, 2, 5, 20}
