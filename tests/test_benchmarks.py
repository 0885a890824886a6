"""Benchmarks still run; what they print on two busy cores proves nothing."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from residua.measure.information import curve as information_curve
from residua.record import MeasureFacts, MethodFacts, Record, Setting, SplitFacts, TaskFacts

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_cost_of_an_audit_is_told_part_by_part_and_the_exit_code_is_the_bars(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cost = importlib.import_module("audit_cost")

    def here(options, part):
        """In this process; no curve is known from the part before."""
        information_curve._curves.clear()
        return cost.measured(options, part)

    monkeypatch.setattr(cost, "child", here)
    code = cost.main(["--size", "300", "--width", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["ratio"] == pytest.approx(found["audit"]["seconds"] / found["curves"]["seconds"])
    assert code == (found["ratio"] > 1.5 or found["early_ratio"] > 0.2)
    assert {"information", "probe", "recovery", "report and hashes"} <= set(found["audit"]["parts"])
    monkeypatch.setattr(cost, "train", lambda *_: None)
    for seconds, expected in ((1.49, 0), (1.51, 1)):
        made = {"curves": {"seconds": 1.0}, "audit": {"seconds": seconds, "parts": {}}}
        made |= {"whole": {"seconds": 1.0}, "early": {"seconds": 0.2}}
        monkeypatch.setattr(cost, "child", lambda _, part, made=made: made[part])
        assert cost.main([]) == expected
        assert f"{seconds} times (bar: 1.5)" in capsys.readouterr().out


def test_a_further_model_is_compared_with_the_first_audit(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    auditor = importlib.import_module("auditor")
    for first, further, expected in ((239.0, 59.0, 0), (241.0, 10.0, 1), (40.0, 10.1, 1)):
        monkeypatch.setattr(auditor, "seconds", lambda _, found=(first, further): found)
        assert auditor.main([]) == expected
        assert f"{further / first:.2f} times (bar: 0.25)" in capsys.readouterr().out


def test_the_help_is_compared_with_importing_pytorch(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    startup = importlib.import_module("startup")
    for seconds, expected in ((0.5, 0), (2.0, 1)):
        monkeypatch.setattr(startup, "seconds", lambda arguments, s=seconds: s if "--help" in arguments else 1.0)
        assert startup.main(["--rounds", "1", "--json"]) == expected
        assert json.loads(capsys.readouterr().out)["ratio"] == seconds


@pytest.mark.slow
def test_an_audit_of_saved_features_reports_progress_and_keeps_to_its_memory(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    saved = importlib.import_module("saved_features")
    saved.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["lines"] == 3  # one for each model and block
    assert found["bytes"] < 4 << 30


def test_what_saved_features_cost_is_held_to_its_bars(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    saved = importlib.import_module("saved_features")
    monkeypatch.setattr(saved, "write", lambda *_: None)
    made = {"processor": 300.0, "clock": 1.0, "bytes": 4 << 30, "lines": 3, "silence": 1.0}
    for more, expected in (({}, 0), ({"processor": 301.0}, 1), ({"bytes": 5 << 30}, 1)):
        monkeypatch.setattr(saved, "audited", lambda folder, more=more: made | more)
        assert saved.main([]) == expected
    assert "(bar: 300)" in capsys.readouterr().out


def test_a_witness_is_placed_between_the_references_and_original(monkeypatch):
    """Log-odds alone: Original's AUC is 0.9, the references' 0.5 in the mean, the model's 0.7."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    witnesses = importlib.import_module("witnesses")
    random = np.random.default_rng(0)
    levels = {"Original": 0.9, "HD": 0.7, "Retrain": 0.4, "Retrain 2": 0.6, "Retrain 3": 0.5}
    records = []
    for label, area in levels.items():
        arrays = {f"log-odds.{name}": random.normal(0, 1, 50) for name in ("forget", "unseen")}
        records.append(
            Record(
                name=label.lower().replace(" ", "-"),
                setting=Setting(task=TaskFacts(splits={n: SplitFacts(n=50) for n in ("forget", "forget_test", "test")})),
                method=MethodFacts(label=label, role="reference" if label.startswith("Retrain ") else None),
                measures={"log-odds": MeasureFacts(label="log-odds")},
                seeds={"training": 0},
                readings={"log-odds": {"log_odds": area}},
                arrays=arrays,
            )
        )  # fmt: skip
    rows = {(method, name): (own, place) for method, name, own, place, _ in witnesses.placed(records)}
    assert rows["HD", "log_odds"] == pytest.approx((0.7, 0.5))
    assert rows["Original", "log_odds"] == pytest.approx((0.9, 1.0))
