"""`residua demo`: quickly with recipes of one epoch on a part of the data, and once as it is."""

from __future__ import annotations

import csv
import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import torch

import residua as rs
from residua.cli import demo as command
from residua.cli import main
from residua.measure import Accuracy
from residua.study import presets, schedule
from residua.text import slug
from residua.training.recipes import TINY

LABELS = ["Original", "Retrain", "Retrain again", "HD", "COLA", "Random"]


def part(split: rs.Split, per_class: int) -> rs.Split:
    chosen = [(split.labels == c).nonzero()[:per_class, 0] for c in range(split.classes)]
    return split.subset(torch.cat(chosen))


@pytest.fixture
def quick(monkeypatch, one_thread, quick_stack) -> rs.ForgetTask:
    """One epoch, width 2, thirty images per class, one thread: seconds."""
    whole = rs.data.fashion_sample()
    data = dataclasses.replace(whole, train=part(whole.train, 30), test=part(whole.test, 10))
    pretraining = dataclasses.replace(TINY, epochs=1, batch=50)
    fields = {"Retrain": {"pretraining": pretraining}, "COLA": {"collapse_epochs": 1, "align_epochs": 1, "crop": 1}}
    task = rs.forget_classes(data, 6)
    monkeypatch.setattr(command, "open_task", lambda *_: task)
    monkeypatch.setattr(presets, "pretraining", lambda *_: pretraining)
    monkeypatch.setattr(presets, "unlearning_of", lambda label, *_: fields.get(label, {}))
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    return task


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def table(out: Path) -> dict[str, dict[str, str]]:
    return {row["Method"]: row for row in csv.DictReader((out / "table.csv").read_text().splitlines())}


def record_of(out: Path, label: str, seed: int = 0) -> rs.Record:
    return rs.Record.read(out / "study" / "records" / f"seed{seed}-{label.lower().replace(' ', '-')}.json")


def test_the_demo_ends_in_one_table_with_verdicts_and_the_same_command_goes_on(quick, tmp_path, capsys, monkeypatch):
    out = tmp_path / "new" / "demo"
    arguments = ["demo", "--out", str(out), "--seed", "4", "--jobs", "1"]
    assert main(arguments) == 0
    shown, said = capsys.readouterr()
    assert str(out) in said
    rows = table(out)
    assert list(rows) == LABELS
    markdown = (out / "table.md").read_text()
    assert "class 6 forgotten" in markdown
    weights = set()
    for label, row in rows.items():
        record = record_of(out, label, seed=4)
        model = rs.load(out / "models" / f"{slug(label)}.safetensors", expect={"width": 2})
        weights.add(record.method.weights)
        assert record.method.label == label
        assert record.setting.task.model_dump() == quick.manifest()
        assert record.readings["accuracy"] == Accuracy()(model, quick).values
        for quantity, value in record.readings["accuracy"].items():
            assert row[f"{quantity} %"] == f"{100 * value:.1f}"
        assert f"| {label} | {row['UA %']} | {row['RA %']} | {row['TA %']} |" in markdown
        if label != "Retrain":
            assert row["Verdict"]
            (line,) = (line for line in shown.splitlines() if line.startswith(f"│ {label} "))
            assert row["Verdict"] in line
            assert "IDI" not in line
    assert len(weights) == len(rows)
    assert len(shown.splitlines()) <= 16
    following = next(line for line in shown.splitlines() if line.startswith("residua audit "))
    assert all(Path(word).exists() for word in shlex.split(following) if word.endswith(".safetensors"))

    monkeypatch.setattr(schedule, "_computed", None)
    before = {
        name: (out / name).stat().st_mtime_ns
        for name in files(out)
        if name.startswith("study") and not name.endswith("status.json")
    }
    assert main(arguments) == 0
    assert capsys.readouterr().out == shown
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before


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
    assert re.search(r"HD .* SHALLOW", capsys.readouterr().out)
    accuracy = {label: record_of(tmp_path, label).readings["accuracy"] for label in table(tmp_path)}
    assert accuracy["Original"]["UA"] < 0.8
    assert accuracy["Original"]["TA"] >= 0.85
    assert accuracy["Retrain"]["UA"] == 1.0
    assert accuracy["Retrain"]["TA"] >= 0.90
    assert accuracy["Random"]["TA"] < 0.5
