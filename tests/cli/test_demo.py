"""`residua demo`: quickly with a recipe of one epoch on a part of the data, and once as it is."""

from __future__ import annotations

import csv
import dataclasses
import importlib
from pathlib import Path

import pytest
import torch

import residua as rs
from residua.classifier import weights_digest
from residua.cli import main
from residua.measure import Accuracy
from residua.recipes import TINY

demo = importlib.import_module("residua.cli.demo")
LABELS = {"Original", "Retrain", "Random"}


def part(split: rs.Split, per_class: int) -> rs.Split:
    chosen = [(split.labels == c).nonzero()[:per_class, 0] for c in range(split.classes)]
    return split.subset(torch.cat(chosen))


@pytest.fixture
def quick(monkeypatch, one_thread) -> rs.Dataset:
    """One epoch, width 2, thirty images a class, one thread: seconds."""
    whole = rs.datasets.fashion_sample()
    data = dataclasses.replace(whole, train=part(whole.train, 30), test=part(whole.test, 10))
    monkeypatch.setattr(demo, "TINY", dataclasses.replace(TINY, epochs=1, batch=50))
    monkeypatch.setattr(demo, "WIDTH", {"tiny": 2})
    monkeypatch.setattr(demo, "fashion_sample", lambda: data)
    return data


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def names(out: Path) -> dict[str, str]:
    """What each method of the table is called on disk, in the table's order."""
    rows = csv.DictReader((out / "table.csv").read_text().splitlines())
    return {row["Method"]: row["Method"].lower().replace(" ", "-") for row in rows}


def check_files(out: Path) -> None:
    called = names(out)
    assert called.keys() >= LABELS
    found = {name for name in files(out) if not name.endswith(".npz")}
    assert found == {"table.md", "table.csv"} | {
        place for name in called.values() for place in (f"records/{name}.json", f"{name}.safetensors")
    }


def test_the_demo_writes_a_table_records_and_checkpoints_the_same_each_time(quick, tmp_path, capsys):
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--out", str(out), "--seed", "4"]) == 0
    shown, said = capsys.readouterr()
    check_files(out)
    assert str(out) in said

    task = rs.forget_classes(quick, 6)
    markdown = (out / "table.md").read_text()
    assert "class 6 forgotten" in markdown
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    digests = set()
    for row, (label, name) in zip(rows, names(out).items(), strict=True):
        record = rs.Record.read(out / "records" / f"{name}.json")
        model = rs.load(out / f"{name}.safetensors", expect={"network": "resnet18", "width": 2})
        digests.add(weights_digest(model))
        assert record.method["label"] == label
        assert record.seeds == {"training": 4}
        assert record.setting["task"] == task.manifest()
        assert record.readings["accuracy"] == Accuracy()(model, task).values
        assert record.seconds["method"] >= 0
        for quantity, value in record.readings["accuracy"].items():
            assert row[f"{quantity} %"] == f"{100 * value:.1f}"
        assert any(label in line and row["TA %"] in line for line in shown.splitlines())
        assert f"| {label} | {row['UA %']} | {row['RA %']} | {row['TA %']} |" in markdown
    assert len(digests) == len(rows)

    again = tmp_path / "again"
    assert main(["demo", "--out", str(again), "--seed", "4"]) == 0
    for place in ("table.csv", *(f"{name}.safetensors" for name in names(out).values())):
        assert (again / place).read_bytes() == (out / place).read_bytes()


def test_a_demo_that_cannot_be_written_is_refused_before_it_begins(quick, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 3
    shown, said = capsys.readouterr()
    assert shown == ""
    assert said.splitlines()[-1].startswith("residua: ")
    assert "Traceback" not in said
    assert "epoch" not in said
    assert files(tmp_path) == {"file"}


@pytest.mark.slow
def test_the_demo_shows_what_it_is_meant_to_show(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path)]) == 0
    check_files(tmp_path)
    found = {
        label: rs.Record.read(tmp_path / "records" / f"{name}.json").readings["accuracy"]
        for label, name in names(tmp_path).items()
    }
    assert found["Original"]["UA"] < 0.8
    assert found["Original"]["TA"] >= 0.85
    assert found["Retrain"]["UA"] == 1.0
    assert found["Retrain"]["TA"] >= 0.90
    assert found["Random"]["TA"] < 0.5
