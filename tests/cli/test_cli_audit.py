from __future__ import annotations

import json

import numpy as np
import pytest

import residua as rs
from residua.cli import main, options
from residua.outputs import logits
from residua.report import AuditReport

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def place(tmp_path, truths, stripes, monkeypatch):
    """A folder with checkpoints of the models whose truth is known; --data stripes opens their data."""
    monkeypatch.setattr(options, "open_dataset", lambda words: stripes)
    monkeypatch.chdir(tmp_path)
    for name, model in truths.items():
        rs.save(model, tmp_path / f"{name}.safetensors")
    return tmp_path


def audit(unlearned: str, *more: str, reference: str = "reference.safetensors") -> int:
    names = ["--original", "original.safetensors", "--unlearned", f"{unlearned}.safetensors"]
    task = ["--data", "stripes", "--forget", "class:2", "--last", "1", "--device", "cpu", "--budget", "1s"]
    return main(["audit", *names, "--reference", reference, *task, *more])


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        ("retrain", "FORGOTTEN", 0),
        ("hd", "SHALLOW", 1),
        ("original", "NOT_FORGOTTEN", 1),
        ("random", "UTILITY_LOST", 1),
    ],
)
def test_the_exit_code_is_the_verdicts(place, capsys, name, word, code):
    assert audit(name, "--out", "audit") == code
    assert capsys.readouterr().out.startswith(f"{word}\n")
    assert AuditReport.model_validate_json((place / "audit/report.json").read_text()).verdict == word
    assert main(["verify", "audit"]) == 0
    report = json.loads((place / "audit/report.json").read_text())
    (place / "audit/report.json").write_text(json.dumps(report | {"verdict": "OVER_UNLEARNED"}))
    capsys.readouterr()
    assert main(["verify", "audit"]) == 1
    assert "verdict is 'OVER_UNLEARNED', but follows as" in capsys.readouterr().out


def test_undetermined_is_two(place, capsys):
    assert audit("retrain", reference="none") == 2
    assert "# UNDETERMINED" in capsys.readouterr().out


def test_json_is_the_report(place, capsys):
    assert audit("retrain", "--json", "--margin", "0.1") == 2
    found = AuditReport.model_validate_json(capsys.readouterr().out)
    assert found.settings["margin"] == 0.1


def test_a_proxy_can_be_trained(place, capsys):
    assert audit("hd", "--json", reference="proxy:0.5") in (1, 2)
    found = AuditReport.model_validate_json(capsys.readouterr().out)
    assert found.against == "proxy"
    assert found.about["proxy"]["epochs"] == rs.recipes.TINY.epochs


def test_saved_outputs_are_audited_without_data(place, truths, stripes, capsys):
    task = rs.forget_classes(stripes, 2)
    for name in ("original", "hd", "reference"):
        arrays = {f"{split}_logits": logits(truths[name], of).numpy() for split, of in task.splits.items()}
        np.savez(f"{name}.npz", **arrays)
    files = ["--original", "original.npz", "--reference", "reference.npz", "--outputs"]
    assert main(["audit", *files, "--unlearned", "hd.npz"]) == 2
    assert "white-box: not assessed" in capsys.readouterr().out
    assert main(["audit", *files, "--unlearned", "original.npz"]) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--reference", "nowhere.safetensors"], "does not exist"),
        (["--reference", "proxy:7"], "not understood"),
        (["--reference", "proxy:x"], "not understood"),
        (["--budget", "soon"], "--budget"),
        (["--margin", "1"], "margin"),
        (["--outputs"], "leave --data"),
        (["--outputs", "--features"], "choose one"),
        (["--out", "original.safetensors"], "cannot be written"),
        (["--data", ""], "give both"),
    ],
)
def test_bad_input_is_three_and_writes_nothing(place, capsys, words, says):
    before = sorted(place.iterdir())
    assert audit("retrain", *words) == 3
    found = capsys.readouterr()
    assert says in found.err
    assert len(found.err.splitlines()) == 1
    assert found.out == ""
    assert sorted(place.iterdir()) == before


def test_no_audit_to_verify_is_three(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1
