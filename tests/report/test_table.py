from __future__ import annotations

import csv
import io

import pytest

import residua as rs
from residua.report.methods import accuracy_table, study_tables
from residua.report.table import Table, setting_line


def record(label: str = "Original", *, readings=(0.0, 1.0, 0.5), network=None, forgotten=(6,), n=600, **fields):
    return rs.Record(
        name=label.lower(),
        setting={
            "scale": "tiny",
            "network": network or {"network": "resnet18", "width": 8, "classes": 10},
            "task": {"dataset": "fashion-sample", "forgotten_classes": list(forgotten), "splits": {"forget": {"n": n}}},
        },
        method={"label": label},
        seeds={"training": 3},
        readings={"accuracy": dict(zip(("UA", "RA", "TA"), readings, strict=True))},
        **fields,
    )


def test_markdown_is_a_title_a_table_and_a_note():
    table = Table("Title", ("Method", "UA %"), (("Original", "0.1"), ("Retrain", "100.0")), note="A note.")
    assert table.markdown() == (
        "**Title**\n\n| Method | UA % |\n| --- | --- |\n| Original | 0.1 |\n| Retrain | 100.0 |\n\nA note.\n"
    )
    assert Table("T", ("A",), (("x",),)).markdown() == "**T**\n\n| A |\n| --- |\n| x |\n"


def test_csv_comes_back_whatever_the_cells_hold():
    rows = (("plain", "1.0"), ('comma, quote"', "line\nbreak"), ("", "ä | [b]"))
    table = Table("Title", ("Method", "TA, %"), rows, note="left out")
    assert table.csv().splitlines()[1] == "plain,1.0"
    assert [tuple(row) for row in csv.reader(io.StringIO(table.csv()))] == [("Method", "TA, %"), *rows]
    assert "\r" not in table.csv()


def test_accuracies_are_shown_in_per_cent_in_the_order_of_the_records():
    table = accuracy_table(
        [record("Original", readings=(0.1234, 1.0, 0.9)), record("Retrain", readings=(1, 0.99951, 0.0))]
    )
    assert table.columns == ("Method", "UA %", "RA %", "TA %")
    assert table.rows == (("Original", "12.3", "100.0", "90.0"), ("Retrain", "100.0", "100.0", "0.0"))
    assert table.title == setting_line(record())
    assert "without the forgotten classes" in table.note


def test_the_table_does_not_depend_on_the_order_in_a_reading():
    turned = record(readings=(0.1, 0.2, 0.3))
    turned.readings["accuracy"] = {"TA": 0.3, "RA": 0.2, "UA": 0.1}
    assert accuracy_table([turned]).rows == (("Original", "10.0", "20.0", "30.0"),)


VIT = {"network": "vit", "variant": "tiny", "patch": 4}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "fashion-sample, resnet18 (width 8), class 6 forgotten, tiny scale, seed 3"),
        ({"forgotten": (0,)}, "fashion-sample, resnet18 (width 8), class 0 forgotten, tiny scale, seed 3"),
        ({"forgotten": (1, 5)}, "fashion-sample, resnet18 (width 8), classes 1, 5 forgotten, tiny scale, seed 3"),
        ({"forgotten": (), "n": 250}, "fashion-sample, resnet18 (width 8), 250 samples forgotten, tiny scale, seed 3"),
        (
            {"network": {"adopted": "own.Net", "classes": 10}},
            "fashion-sample, own.Net, class 6 forgotten, tiny scale, seed 3",
        ),
        ({"network": VIT}, "fashion-sample, vit, class 6 forgotten, tiny scale, seed 3"),
    ],
)
def test_the_setting_is_said_in_one_line(fields, line):
    assert setting_line(record(**fields)) == line


WIDE = Table(
    "A setting, seed 3",
    ("Method", "UA %", "IDI", "RTE s", "n", "Verdict"),
    (
        ("HD", "100.0 ± 0.0", "-0.12", "10.52", "12", "SHALLOW"),
        ("My method †", "1.5", "0.30", "9.9", "3", "NOT FORGOTTEN"),
    ),
    "Stars: *.",
)


@pytest.mark.parametrize("width", [200, 60, 40, 30])
def test_a_narrow_terminal_has_fewer_columns_and_every_digit(width):
    shown = WIDE.fitting(width)
    for row, whole in zip(shown.rows, WIDE.rows, strict=True):
        assert set(row) <= set(whole)
    left_out = set(WIDE.columns) - set(shown.columns)
    assert bool(left_out) == (width < 60)
    assert all(name in shown.note for name in left_out)
    assert {"Method", "IDI"} <= set(shown.columns)


def test_latex_has_a_label_its_legend_and_minus_signs():
    text = WIDE.latex()
    assert r"\label{tab:a-setting-seed-3}" in text
    assert "$-$0.12" in text
    assert "Stars: *." in text
    assert r"My method $\dagger$" in text


def test_one_model_has_the_interval_of_its_idi_and_an_own_method_is_marked():
    rows = [
        {"method": label, "seed": 0, "IDI": value, "IDI.low": value - 0.1, "IDI.high": value + 0.1, "E-MIA": None}
        for label, value in (("Original", 1.0), ("Retrain", 0.0), ("Dim", 0.5))
    ]
    records = [record(row["method"]) for row in rows]
    (table,) = study_tables(records, rows=rows, verdicts={"Dim": "SHALLOW"}, own={"Dim"})
    found = dict(zip(table.columns, table.rows[2], strict=True))
    assert found["IDI"] == "0.50 (0.40 to 0.60)"
    assert found["MIA %"] == "at chance"
    assert (found["Method"], found["Verdict"]) == ("Dim †", "SHALLOW")
    assert "†: a method of your own" in table.note


def test_processor_time_stands_beside_run_time():
    made = [
        record(label, seconds={"RTE": 99.5, "RTE.cpu": 20.0, "RTE.load": 7.25}) for label in ("Original", "Retrain")
    ]
    (table,) = study_tables(made)
    found = dict(zip(table.columns, table.rows[1], strict=True))
    assert (found["RTE s"], found["CPU s"]) == ("99.5", "20.0")
    assert "Load of the machine: 7.2 to 7.2." in table.note
