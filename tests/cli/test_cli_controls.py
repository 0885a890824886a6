from __future__ import annotations

import dataclasses
import importlib
import shutil

import numpy as np
import pytest

import residua as rs
from residua.cli import inputs, main
from residua.compare import Rules
from residua.record import MeasureFacts, Record
from residua.report.audit import AuditReport
from residua.report.controls import control_reports, fooled_table, verdict_table
from residua.study import presets, schedule

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = (
    "Original", "Further Retrain", "Random", "HD", "Masking", "Router", "Smoothing", "Rescaled", "Mixed", "Oblique",
    "Scrambled", "Outliers", "Faint copy", "Still answers", "Defeat device", "Mixture", "Low bits",
    "Low bits, 12", "Low bits, last", "Switched off", "Switched off, weights", "Switched off, first block", "Coded, product", "Coded, hash", "Coded, digits", "Asked otherwise, near", "Asked otherwise, mode",
    "Adaptive", "Retrain, half the width", "Retrain, without augmentation", "Retrain, label-smoothed", "Retrain, pruned",
    "Retrain, quantised", "FT", "Weak COLA",
)  # fmt: skip


@pytest.fixture
def small(stripes, stripes_training, monkeypatch):
    """Controls that take seconds: the stripes, a narrow network, one epoch, one measure beside the verdict's,
    few draws of the bootstrap."""
    quick = dataclasses.replace(stripes_training, epochs=1)
    fields: dict[str, dict] = {"Retrain": {"pretraining": quick}, "HD": {"crop": 0}, "FT": {"epochs": 1, "crop": 0}}
    fields["COLA"] = {"collapse_epochs": 1, "align_epochs": 1, "crop": 0}
    monkeypatch.setattr(inputs, "open_dataset", lambda words, **more: stripes)
    monkeypatch.setattr(presets, "pretraining", lambda *_: quick)
    monkeypatch.setattr(presets, "unlearning_of", lambda label, *_: fields.get(label, {}))
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    monkeypatch.setattr(presets, "EXTRA_MEASURES", (rs.measure.Recovery(repeats=1),))
    monkeypatch.setattr(
        presets, "InformationCurve", lambda ratio: rs.measure.InformationCurve(last=1, family="linear", ratio=ratio)
    )
    monkeypatch.setattr(importlib.import_module("residua.compare.information"), "DRAWS", 100)


@pytest.mark.slow
def test_controls_run_and_a_second_run_makes_nothing_again(small, tmp_path, capsys, monkeypatch):
    words = ["controls", "--data", "stripes", "--forget", "class:2", "--seeds", "1", "--jobs", "1"]
    words += ["--references", "2"]
    words += ["--out", str(tmp_path / "c")]
    assert main(words) == 0
    first = capsys.readouterr().out
    table = (tmp_path / "c/table.md").read_text()
    for row in ROWS:
        assert f"| {row} |" in table
    records = [Record.read(path) for path in sorted((tmp_path / "c/evidence/records").glob("*.json"))]
    assert len(records) == len(ROWS) + 4, "two references, and two that are none"
    drawn = {record.method.label: record.seeds["method"] for record in records}
    assert len({drawn[label] for label in ("Retrain", "Retrain 2", "Further Retrain")}) == 3
    cells_of = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in table.splitlines() if "|" in line}
    for cheat in (
        row for row in ROWS if row not in ("Further Retrain", "FT", "Weak COLA", "Mixture") and "Retrain," not in row
    ):
        assert cells_of[cheat][1] == "0", "FORGOTTEN"
    saved = sorted((tmp_path / "c").glob("*.json"))
    reports = [AuditReport.model_validate_json(path.read_text()) for path in saved]
    assert len(reports) == len(ROWS)
    matrix = fooled_table(reports)
    fooled = {row[0]: dict(zip(matrix.columns, row, strict=True)) for row in matrix.rows}
    assert fooled["UA"]["HD"] == fooled["UA"]["Masking"] == "100", "outputs are fooled"
    assert fooled["MI.5"]["HD"] == fooled["MI.5"]["Router"] == "0", "the inside is not"
    monkeypatch.setattr(schedule, "_computed", None)
    assert main(words) == 0
    assert capsys.readouterr().out == first


def test_seeds_are_added_to_those_whose_reports_are_there(small, tmp_path, capsys):
    """Evidence is large and may be gone; only what was asked for is audited; what was made otherwise is not counted."""
    out = tmp_path / "c"
    words = ["controls", "--data", "stripes", "--forget", "class:2", "--jobs", "1", "--references", "1"]
    words += ["--method", "hd", "--method", "GA", "--out", str(out)]
    assert main([*words, "--seeds", "1"]) == 0
    shutil.rmtree(out / "evidence")
    assert main([*words, "--seeds", "2", "--first", "1"]) == 0
    assert {path.name for path in (out / "evidence/records").glob("*.json")} == {
        f"seed1-{name}.json" for name in ("original", "retrain", "hd", "ga")
    }
    table = (out / "table.md").read_text()
    assert "2 seeds" in table
    for row in ("Original", "HD", "GA"):
        cells = next(line for line in table.splitlines() if line.startswith(f"| {row} |")).split(" | ")
        assert sum(int(cell) for cell in cells[1:7]) == 2
    capsys.readouterr()
    assert main([*words, "--seeds", "4", "--first", "3"]) == 3
    assert "holds no reports of seed 2" in capsys.readouterr().err
    assert main([*words, "--seeds", "1", "--first", "1"]) == 3
    assert main([*words, "--seeds", "2", "--first", "1", "--margin", "0.9"]) == 3
    assert "rules.margin was none and is 0.9" in " ".join(capsys.readouterr().err.split())
    assert (out / "table.md").read_text() == table


def test_a_missed_bar_is_said():
    """A second Retrain that is called SHALLOW, by planted records."""
    assert "MISSED" in str(verdict_table(control_reports(planted(second=1.0), Rules())).rows)
    held = verdict_table(control_reports(planted(second=0.0), Rules()))
    assert [row[-1] for row in held.rows if row[0] == "Second Retrain"] == ["met"]


def test_a_bad_reference_is_tried_in_the_place_of_the_last(monkeypatch):
    records = planted(second=0.0)
    names = {"Second Retrain": "Further Retrain"}
    records = [
        each.model_copy(
            update={"method": each.method.model_copy(update={"label": names.get(each.method.label, each.method.label)})}
        )
        for each in records
    ]
    for label in ("Reference, short", "Reference, tainted"):
        last = records[-1]
        records.append(
            last.model_copy(update={"method": last.method.model_copy(update={"label": label, "role": "control"})})
        )
    tried = []

    def watched(roles, **more):
        tried.append(roles["reference"].method.label)
        if tried[-1] == "Reference, tainted":
            raise rs.InputError("it answers the class")
        return audit(roles, **more)

    module = importlib.import_module("residua.report.controls")
    audit = module.audit_report
    monkeypatch.setattr(module, "audit_report", watched)
    reports = control_reports(records, Rules())
    assert {each.about["control"] for each in reports} == {"Original", "Further Retrain"}
    assert reports[-1].about["bad_references"] == {"Reference, short": "passed", "Reference, tainted": "refused"}
    note = verdict_table(reports).note
    assert "Reference, short: refused in 0 and named in 0 of 1 seeds." in note
    assert "Reference, tainted: refused in 1 and named in 0 of 1 seeds." in note


def planted(second: float) -> list[Record]:
    """Records of an Original (0.3 nats), a Retrain (0.1) and a second one that knows 0.1 + 0.2 `second`."""
    random = np.random.default_rng(0)
    levels = {"Original": 0.3, "Retrain": 0.1, "Second Retrain": 0.1 + 0.2 * second}
    task = {"dataset": "d", "forgotten_classes": [2], "splits": {"forget": {"n": 100}, "test": {"n": 500}}}
    records = []
    for label, level in levels.items():
        said = random.normal(0, 0.1, (100, 3)) + 3 * np.eye(3)[2 if label == "Original" else 0]
        log_p = said - np.log(np.exp(said).sum(1, keepdims=True))
        terms = (level + random.normal(0, 0.05, (1, 1, 400))).astype(np.float32)
        arrays = {"terms": terms, "blocks": np.array([5]), "labels": np.zeros(400, np.int32), "index": np.arange(400)}
        records.append(
            Record(
                name=label.lower().replace(" ", "-"),
                setting={"scale": "tiny", "network": {"network": "n"}, "task": task},
                method={"label": label},
                seeds={"training": 0},
                measures={"information": MeasureFacts(label="information", reading="curve")},
                readings={
                    "accuracy": {"UA": 1.0, "RA": 0.9, "TA": 0.9},
                    "outputs": {},
                    "information": {"H": 0.5, "I5": level},
                },
                arrays={f"information.{name}": array for name, array in arrays.items()}
                | {"outputs.log_probabilities": log_p},
            )
        )
    return records
