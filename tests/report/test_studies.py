"""Tables of studies: which methods are marked as nearest, and which records they are made of."""

from __future__ import annotations

import pytest

import residua as rs
from residua.report.methods import method_cell, study_tables, summary

NETWORK = {"network": "resnet18", "width": 8, "classes": 10}
TASK = {"dataset": "x", "forgotten_classes": [6], "splits": {"forget": {"n": 9}}, "sha256": "0" * 64}


def record(label: str, seed: int | None, ta: float, **more) -> rs.Record:
    return rs.Record(
        name=f"{label}-{seed}".lower(),
        setting={"scale": "tiny", "network": NETWORK, "task": TASK},
        method={"label": label},
        seeds={} if seed is None else {"training": seed},
        readings={"accuracy": {"UA": 1.0, "RA": 1.0, "TA": ta}},
        **more,
    )


def test_the_nearest_is_marked_and_so_is_what_cannot_be_distinguished_from_it():
    values = {
        "Original": (0.900, 0.900),  # nearest of all, and never marked: others are compared with it
        "Retrain": (0.900, 0.900),
        "FT": (0.890, 0.890),  # the nearest method, one point away
        "RL": (0.870, 0.898),  # 1.6 points away, with a standard error of 1.4: a tie
        "GA": (0.860, 0.860),
    }
    records = [
        record(label, seed, ta, seconds={"RTE": 2.0}) for label, both in values.items() for seed, ta in enumerate(both)
    ]
    (table,) = study_tables(records)
    column = table.columns.index("TA %")
    marked = {row[0] for row in table.rows if row[column].endswith("*")}
    assert marked == {"FT", "RL"}
    assert [row[-1] for row in table.rows] == ["2"] * 5
    assert not any(row[table.columns.index("RTE s")].endswith("*") for row in table.rows)


@pytest.mark.parametrize("seconds", [{}, {"RTE": 1.0}])
def test_records_of_single_measurements_make_a_table_too(seconds):
    """`residua export` takes any folder of records, also those that no study has made."""
    rows = summary([record("Original", None, 0.9), record("HD", None, 0.8, seconds=seconds)])
    assert [(row["method"], row["seed"]) for row in rows] == [("Original", 0), ("HD", 0)]
    assert ("RTE" in rows[1]) is bool(seconds)
    assert study_tables([record("Original", None, 0.9)])[0].rows[0][0] == "Original"


def test_a_metric_that_was_measured_and_has_no_value_is_named_in_its_cell():
    rows = [
        {"method": "Original", "seed": 0, "IDI": 1.0, "E-MIA": None},
        {"method": "FT", "seed": 0, "IDI": None},
        {"method": "RL", "seed": 0, "IDI": 0.5},
        {"method": "RL", "seed": 1, "IDI": None},
    ]
    records = [record(row["method"], row["seed"], 0.9) for row in rows]
    (table,) = study_tables(records, rows=rows, verdicts={"FT": "SHALLOW"})
    assert table.columns == ("Method", "MIA %", "IDI", "n", "Verdict")
    assert table.rows == (
        ("Original", "at chance", "1.00", "1", ""),
        ("FT", "none", "undetermined", "1", "SHALLOW"),
        ("RL", "none", "0.50 (1 undetermined)", "2", ""),
    )


def test_the_interval_of_a_cell_is_in_the_unit_of_its_value():
    rows = [
        {"recovery": 0.6, "recovery.low": 0.512, "recovery.high": 0.688, "IDI": 0.5, "IDI.low": 0.4, "IDI.high": 0.6}
    ]
    assert method_cell(rows, [60.0], "recovery", 1) == "60.0 (51.2 to 68.8)"
    assert method_cell(rows, [0.5], "IDI", 2) == "0.50 (0.40 to 0.60)"
