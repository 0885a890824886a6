"""`residua study`: end to end on a file of one's own."""

from __future__ import annotations

import csv
import json

import pytest

from residua.cli import main
from residua.study import schedule

pytestmark = pytest.mark.usefixtures("one_thread")

STUDY = """
import residua as rs
from conftest import make_stripes
from residua.measure import Accuracy
from residua.study import Study
from residua.unlearn import HeadDistillation, Original, Retrain

data = rs.data.arrays(*make_stripes(80, seed=0), *make_stripes(40, seed=1), name="stripes")
quick = rs.Pretraining(epochs=1, batch=16, lr=0.05, crop=0, flip=False, precision="float32")
study = Study(
    tasks={"stripes": rs.forget_classes(data, 2)},
    networks={"r": {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}},
    pretraining=quick,
    methods=[Original(), Retrain(quick), HeadDistillation(epochs=EPOCHS, crop=0, flip=False, batch=16)],
    measures=[Accuracy()],
)
"""


@pytest.fixture
def run(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(STUDY.replace("EPOCHS", "1"))
    out = tmp_path / "runs"

    def call(*words: str, epochs: int = 1) -> tuple[int, str, str]:
        file.write_text(STUDY.replace("EPOCHS", str(epochs)))
        named = words[0] in ("run", "plan", "verdicts")
        place = [str(file), "--out", str(out)] if named else [str(out)]
        code = main(["study", words[0], *place, *words[1:]])
        return code, *capsys.readouterr()

    return call


AUDITED = """
from residua.audits.auditing import VERDICT_MEASURES
from residua.measure import InformationCurve, Recovery
from residua.study.definition import Row
import dataclasses
study = dataclasses.replace(
    study,
    methods=[*study.methods[:2], Row("Retrain 2", Retrain(quick), draw=1), *study.methods[2:]],
    measures=[InformationCurve(last=1, steps=3, rounds=1, folds=2), *VERDICT_MEASURES, Recovery(repeats=1)],
    compact=True,
)
"""


def test_every_model_of_a_study_gets_a_verdict_from_what_was_measured(run, tmp_path, monkeypatch):
    code, _, err = run("verdicts")
    assert (code, "holds no study; run `residua study run`" in err) == (3, True)
    monkeypatch.setattr("test_cli_study.STUDY", STUDY + AUDITED)
    code, _, err = run("run", "--jobs", "1", "--draws", "2")
    assert code == 0, err
    code, _, err = run("verdicts", "--seeds", "2", "--draws", "2")
    assert code == 0, "the second seed has not run, and is left out"
    code, out, err = run("verdicts", "--draws", "2")
    assert code == 0, err
    assert "3 reports and the table" in err
    folder = tmp_path / "runs/verdicts"
    assert {path.name for path in folder.iterdir()} == {
        "seed0-original.json", "seed0-hd.json", "seed0-1-hd.json", "table.md",
    }  # fmt: skip
    first, second = (json.loads((folder / name).read_text()) for name in ("seed0-hd.json", "seed0-1-hd.json"))
    assert (first["about"]["control"], second["about"]["draw"]) == ("HD", 1)
    assert first["inside"]["references"] == 2
    assert first["inside"]["idi"]["value"] == 1 or first["inside"]["idi"]["value"] is None, "HD has Original's encoder"
    assert first["verdict"] != "FORGOTTEN"
    assert first["about"]["command"].startswith("residua")
    assert first["verdict"] in (folder / "table.md").read_text()
    assert first["verdict"] in out


def test_a_study_is_planned_run_looked_at_and_kept_in_order(run):
    code, planned, _ = run("plan", "--json")
    assert code == 0
    assert json.loads(planned)["missing"] == {"train": 1, "unlearn": 3, "measure": 3}
    code, out, err = run("run", "--jobs", "1", "--seeds", "2")
    assert code == 0, err
    assert "14 cells computed, 0 found" in err
    assert "HD" in out
    planned = json.loads(run("plan", "--json")[1])
    assert (planned["missing"], planned["there"]) == ({}, {"train": 1, "unlearn": 3, "measure": 3})
    assert "finished: 14 of 14 cells done, 0 left" in run("status")[1]
    rows = json.loads(run("table", "--json")[1])["rows"]
    assert [(row["method"], row["seed"]) for row in rows] == [
        (method, seed) for seed in (0, 1) for method in ("Original", "Retrain", "HD")
    ]
    assert all({"UA", "RA", "TA", "RTE"} <= row.keys() for row in rows)
    assert len(list(csv.DictReader(run("table", "--csv")[1].splitlines()))) == 6
    assert r"\begin{tabular}" in run("table", "--latex")[1]
    assert "| Method |" in run("table", "--markdown")[1]
    assert run("check") == (0, "Every file is what was written.\n", "")
    assert "made once" in run("why", "seed0-hd")[1]
    code, _, err = run("run", "--jobs", "1", "--seeds", "2", epochs=2)
    assert code == 0
    assert "methods.HD.fields.epochs was 1 in the last run and is 2 now" in err
    assert "4 cells computed, 10 found" in err
    assert run("why", "seed0-hd")[1] == "method.fields.epochs was 1 and is 2\n"
    assert "files with" in run("prune")[1]
    assert "0 files" in run("prune", "--dry-run")[1]
    assert "0 cells computed, 14 found" in run("run", "--jobs", "1", "--seeds", "2", epochs=2)[2]


def test_unlearning_is_repeated_with_other_seeds_and_what_starts_from_nothing_is_not(run, monkeypatch):
    kept = []
    monkeypatch.setattr(schedule, "compact", lambda record: kept.append(record.name) or record)
    planned = json.loads(run("plan", "--json", "--draws", "2")[1])
    assert planned["missing"] == {"train": 1, "unlearn": 4, "measure": 4}
    code, _, err = run("run", "--jobs", "1", "--draws", "2", "--compact")
    assert code == 0, err
    assert set(kept) == {"seed0-original", "seed0-retrain", "seed0-hd", "seed0-hd-draw-1"}


def test_a_page_is_drawn_again_only_where_something_has_changed(run, tmp_path):
    page = tmp_path / "runs/report.html"
    assert run("run", "--jobs", "1")[0] == 0
    first = page.stat().st_mtime_ns
    assert f"Open {page}" in run("run", "--jobs", "1")[2].replace("\n", "")
    assert page.stat().st_mtime_ns == first
    assert run("run", "--jobs", "1", "--method", "Original")[0] == 0  # nothing to compute, but another study
    assert page.stat().st_mtime_ns > first
    page.unlink()
    assert run("run", "--jobs", "1", "--method", "Original")[0] == 0
    assert page.exists()


def test_damaged_files_beside_the_cells_are_one_sentence_and_the_next_run_mends_them(run, tmp_path):
    words = ["run", "--jobs", "1", "--method", "HD"]
    run(*words)
    for name, asks in (("status.json", ["status"]), ("keys.json", ["why", "seed0-hd"])):
        for damage in ("{", "[1]", '{"a": 1}', "[" * 100_000):
            (tmp_path / "runs" / name).write_text(damage)
            code, _, err = run(*asks)
            assert code == 3
            assert f"{name} is damaged" in err
            assert run("prune", "--dry-run")[0] == 3
            if name == "keys.json" and damage != '{"a": 1}':
                assert run("table")[0] == 3
        assert run(*words)[0] == run(*asks)[0] == run("table")[0] == run("prune", "--dry-run")[0] == 0


def test_what_fails_is_named_and_the_exit_code_says_so(run, monkeypatch):
    from residua.unlearn import HeadDistillation

    def fail(*_):
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr(HeadDistillation, "__call__", fail)
    code, out, err = run("run", "--jobs", "1")
    assert code == 1
    assert "seed0-hd: ZeroDivisionError: no luck" in err
    assert "Retrain" in out
    assert "failed: seed0-hd: ZeroDivisionError: no luck" in run("status")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "nothing", "--out", "x"], "there is no study 'nothing'"),
        (["run", "small", "--out", "x"], "--data cifar10:DIR"),
        (["status", "nowhere"], "holds no study"),
        (["table", "nowhere"], "is not a folder"),
        (["check", "nowhere"], "holds no study"),
        (["prune", "nowhere"], "holds no study"),
        (["why", "nowhere", "seed0-hd"], "holds no study"),
        (["run", "tiny", "--out", "x", "--limit", "soon"], "write 90s, 10m, 2h or 3d"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(["study", *words]) == 3
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_row_with_a_name_of_its_own_can_be_chosen_and_comes_with_its_method(tmp_path, capsys):
    file = tmp_path / "mine.py"
    starred = """
from residua.study.definition import Row
import dataclasses
study = dataclasses.replace(
    study, methods=[*study.methods, Row("HD*", dataclasses.replace(study.methods[2], lr=0.5))]
)
"""
    file.write_text(STUDY.replace("EPOCHS", "1") + starred)
    records = {}
    for label in ("HD", "HD*", "Retrain"):
        out = tmp_path / str(len(records))
        assert main(["study", "run", str(file), "--method", label, "--jobs", "1", "--out", str(out)]) == 0
        found = [json.loads(path.read_text("utf-8")) for path in (out / "records").glob("*.json")]
        records[label] = {each["method"]["label"] for each in found} - {"Original", "Retrain"}
    assert records == {"HD": {"HD", "HD*"}, "HD*": {"HD*"}, "Retrain": set()}
    capsys.readouterr()
    assert main(["study", "run", str(file), "--method", "FT*", "--out", str(tmp_path / "none")]) == 3
    assert "method 'FT*' is unknown" in capsys.readouterr().err
