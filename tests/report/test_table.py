from __future__ import annotations

import csv
import io

import pytest

import residua as rs
from residua.report.methods import accuracy_table
from residua.report.table import Table, setting_line


def record(
    label: str = "Original", *, readings=(0.0, 1.0, 0.5), network=None, forgotten=(6,), n=600, **fields
):
    return rs.Record(
        name=label.lower(),
        setting={
            "scale": "tiny",
            "network": network or {"network": "resnet18", "width": 8, "classes": 10},
            "task": {
                "dataset": "fashion-sample",
                "forgotten_classes": list(forgotten),
                "splits": {"forget": {"n": n}},
            },
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
        (
            {"forgotten": (1, 5)},
            "fashion-sample, resnet18 (width 8), classes 1, 5 forgotten, tiny scale, seed 3",
        ),
        (
            {"forgotten": (), "n": 250},
            "fashion-sample, resnet18 (width 8), 250 samples forgotten, tiny scale, seed 3",
        ),
        (
            {"network": {"adopted": "own.Net", "classes": 10}},
            "fashion-sample, own.Net, class 6 forgotten, tiny scale, seed 3",
        ),
        ({"network": VIT}, "fashion-sample, vit, class 6 forgotten, tiny scale, seed 3"),
    ],
)
def test_the_setting_is_said_in_one_line(fields, line):
    assert setting_line(record(**fields)) == line
