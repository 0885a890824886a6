from __future__ import annotations

import numpy as np
import pytest

from residua.compare import metrics
from residua.compare.metric_values import auc_interval, without_credit
from residua.readings import Reading


def attacked(accuracy: float, n: int = 400) -> dict[str, Reading]:
    values = {"E-MIA": 0.37, "E-MIA.accuracy": accuracy, "E-MIA.AUC": accuracy}
    return {"mia": Reading(values, {"E-MIA.held": np.array(n)}), "accuracy": Reading({"UA": 1.0, "RA": 0.9, "TA": 0.9})}


def test_an_attacker_at_chance_has_no_value_and_says_why():
    found = metrics(attacked(0.52), reference=attacked(0.9))
    assert "E-MIA" not in found.values
    assert found.notes["E-MIA"] == (
        "the attacker is right on 52 % of 400 held-out images, no better than chance, so its 37.0 % say nothing"
    )
    assert found.values["E-MIA.accuracy"] == 0.52


def test_an_attacker_at_chance_has_no_part_in_the_gap():
    other = attacked(0.9)
    other["mia"] = Reading({**other["mia"].values, "E-MIA": 0.97}, other["mia"].arrays)
    assert metrics(attacked(0.9), reference=other).values["gap"] == pytest.approx(0.15)
    assert metrics(attacked(0.52), reference=other).values["gap"] == 0


def test_chance_is_called_better_than_chance_in_one_of_twenty():
    hits = np.random.default_rng(0).binomial(500, 0.5, 4000) / 500
    credited = [not without_credit(attacked(hit, 500)["mia"]) for hit in hits]
    assert np.mean(credited) == pytest.approx(0.05, abs=0.015)


def test_the_interval_of_an_auc_covers_it():
    random = np.random.default_rng(1)
    truth = 0.7602  # of two normal distributions 1 apart
    covered = 0
    for _ in range(300):
        ones, others = random.normal(1, 1, 40), random.normal(0, 1, 60)
        auc = float((ones[:, None] > others).mean())
        low, high = auc_interval(auc, 40, 60)
        covered += low < truth < high
    assert covered >= 0.9 * 300
