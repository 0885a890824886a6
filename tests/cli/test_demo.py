"""`residua demo`: quickly with a recipe of one epoch on a part of the data, and once as it is."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
import torch

import residua as rs
from residua.classifier import weights_digest
from residua.cli import cells, main
from residua.measure import Accuracy
from residua.recipes import TINY

LABELS = {"Original", "Retrain", "Retrain again", "HD", "FT", "COLA", "Random"}


def part(split: rs.Split, per_class: int) -> rs.Split:
    chosen = [(split.labels == c).nonzero()[:per_class, 0] for c in range(split.classes)]
    return split.subset(torch.cat(chosen))


@pytest.fixture
def quick(monkeypatch, one_thread, quick_stack) -> rs.Dataset:
    """One epoch, width 2, thirty images a class, one thread: seconds."""
    whole = rs.datasets.fashion_sample()
    data = dataclasses.replace(whole, train=part(whole.train, 30), test=part(whole.test, 10))
    pretraining = dataclasses.replace(TINY, epochs=1, batch=50)
    recipe = {
        "Retrain": {"pretraining": pretraining},
        "FT": {"epochs": 1, "crop": 1},
        "COLA": {"collapse_epochs": 1, "align_epochs": 1, "crop": 1},
    }
    monkeypatch.setattr(cells, "_task", lambda *_: rs.forget_classes(data, 6))
    monkeypatch.setattr(cells, "pretraining", lambda *_: pretraining)
    monkeypatch.setattr(cells, "unlearning", lambda *_: recipe)
    monkeypatch.setattr(cells, "WIDTH", {"tiny": 2})
    return data


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def names(out: Path) -> dict[str, str]:
    """What each method of the table is called on disk, in the table's order."""
    rows = csv.DictReader((out / "table.csv").read_text().splitlines())
    return {row["Method"]: row["Method"].lower().replace(" ", "-") for row in rows}


def check_files(out: Path, seed: int = 0) -> None:
    called = names(out)
    assert called.keys() >= LABELS
    found = {name for name in files(out) if not name.endswith(".npz")}
    assert found == {"table.md", "table.csv", f"models/seed{seed}-original.training.json"} | {
        place for name in called.values() for place in (f"records/{name}.json", weights(name, seed))
    }


def weights(name: str, seed: int = 0) -> str:
    return f"models/seed{seed}-original.safetensors" if name == "original" else f"models/{name}.safetensors"


def test_the_demo_writes_a_table_records_and_checkpoints_the_same_each_time(quick, tmp_path, capsys):
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--out", str(out), "--seed", "4", "--jobs", "1"]) == 0
    shown, said = capsys.readouterr()
    check_files(out, seed=4)
    assert str(out) in said

    task = rs.forget_classes(quick, 6)
    markdown = (out / "table.md").read_text()
    assert "class 6 forgotten" in markdown
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    digests = set()
    for row, (label, name) in zip(rows, names(out).items(), strict=True):
        record = rs.Record.read(out / "records" / f"{name}.json")
        model = rs.load(out / weights(name, 4), expect={"network": "resnet18", "width": 2})
        digests.add(weights_digest(model))
        assert record.method["label"] == label
        assert record.seeds["training"] == 4
        assert record.setting["task"] == task.manifest()
        assert record.readings["accuracy"] == Accuracy()(model, task).values
        assert record.seconds["RTE"] >= 0
        for quantity, value in record.readings["accuracy"].items():
            assert row[f"{quantity} %"] == f"{100 * value:.1f}"
        assert any(label in line and row["TA %"] in line for line in shown.splitlines())
        assert f"| {label} | {row['UA %']} | {row['RA %']} | {row['TA %']} |" in markdown
    assert len(digests) == len(rows)

    again = tmp_path / "again"
    assert main(["demo", "--out", str(again), "--seed", "4", "--jobs", "1"]) == 0
    for name in names(out).values():
        assert (again / weights(name, 4)).read_bytes() == (out / weights(name, 4)).read_bytes()
    second = csv.DictReader((again / "table.csv").read_text().splitlines())
    assert [row | {"RTE s": ""} for row in rows] == [row | {"RTE s": ""} for row in second]


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
