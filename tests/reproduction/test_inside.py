"""The studies of methods that claim the inside, and the tribunal of metrics."""

from __future__ import annotations

import pytest

import residua as rs
from reproduction.inside import HONEST, studies, verdict_on_metrics
from residua.unlearn import METHODS


def test_inside_has_every_method_five_references_and_three_seeds():
    study = studies["inside"]()
    labels = {row.label for row in study.rows}
    assert {method.label for method in METHODS} <= labels
    assert {f"Retrain {n}" for n in range(2, 6)} <= labels
    assert len({row.name for row in study.rows if row.label == "ESC"}) == 3
    assert {"stress", "log-odds", "probe", "representation"} <= {measure.label for measure in study.measures}


def test_the_tribunal_has_thirty_models_of_either_kind_and_honest_ones_are_trained_apart():
    study = studies["tribunal"]()
    anchors = {"Original", "Retrain"}
    honest = [row for row in study.rows if row.label.startswith(HONEST) or row.label == "Further Retrain"]
    knows = [row for row in study.rows if row not in honest and row.label not in anchors]
    assert len(honest) >= 30
    assert len(knows) >= 30
    assert len({str(row.made.method.pretraining) for row in honest}) >= 8
    assert {"HD", "ESC", "Masking", "Scrambled", "Faint copy"} <= {row.label for row in knows}


def rows(good: float, blind: float) -> list[dict]:
    """Two seeds with other anchors: `good` and `blind` are what models that know have of Original's excess."""
    made = []
    for seed, (retrain, original) in enumerate([(0.0, 1.0), (10.0, 6.0)]):

        def row(method, share, other, seed=seed, retrain=retrain, original=original):
            return {
                "method": method,
                "seed": seed,
                "IDI": retrain + share * (original - retrain),
                "UA": 1 - other,
                "RTE": 3.0,
            }

        made += [row("Retrain", 0, 0), row("Original", 1, 1)]
        made += [row(f"{HONEST}{n}", 0.1 * n, 0.1 * n) for n in range(4)]
        made += [row("HD", good, blind), row("Cheat", good + 0.1, 0.9)]
    return made


def test_a_metric_that_separates_has_auc_one_and_a_blind_one_is_named_with_what_fools_it():
    table = verdict_on_metrics(rows(good=0.9, blind=0.0))
    lines = {line[0]: line for line in table.rows}
    assert list(lines) == ["IDI", "UA"], "the best first, and times are no metrics"
    assert lines["IDI"][1].startswith("1.00")
    assert lines["IDI"][2:] == ("4", "8", "")
    assert lines["UA"][1].startswith("0.56")  # HD ties with one of four and loses to three, Cheat beats all
    assert lines["UA"][4] == "HD"


def test_records_without_either_kind_are_refused():
    with pytest.raises(rs.InputError, match="run the study tribunal first"):
        verdict_on_metrics([row for row in rows(1, 1) if not row["method"].startswith(HONEST)])
