"""`residua measure --metrics IDI` and `residua calibrate`."""

from __future__ import annotations

import dataclasses

import pytest

import residua as rs
from residua.cli import controls, main
from residua.compare import curve_of, idi
from residua.measure.information.calibration import Problem
from residua.study import calibrating, schedule

pytestmark = pytest.mark.usefixtures("one_thread")


def words(folder, *more: str) -> list[str]:
    models = ["--original", str(folder / "one.safetensors"), "--reference", str(folder / "two.safetensors")]
    words = ["measure", *models, "--data", f"mnist:{folder}", "--forget", "class:6", "--metrics", "IDI"]
    return [*words, "--critic-epochs", "1", *more]


def test_idi_writes_records_from_which_it_can_be_computed_again(folder, capsys):
    out = folder / "out"
    third = folder / "Third model.safetensors"
    third.write_bytes((folder / "one.safetensors").read_bytes())
    assert main(words(folder, str(third), "--random", "--out", str(out))) == 0
    printed = capsys.readouterr().out
    assert all(label in printed for label in ("Original", "Reference", "Third model", "Random", "IDI"))
    curves = {path.stem: curve_of(rs.Record.read(path)) for path in out.glob("*.json")}
    assert set(curves) == {"original", "reference", "third-model", "random"}
    same = idi(curves["third-model"], original=curves["original"], reference=curves["reference"])
    assert same.id_unlearned == same.id_original
    assert (out / "table.md").exists()


def test_idi_keeps_models_of_one_name_apart(folder, capsys):
    names = {"a/cola": "one", "b/cola": "two", "Reference": "one", "Random": "two"}
    places = [folder / f"{name}.safetensors" for name in names]
    for place, source in zip(places, names.values(), strict=True):
        place.parent.mkdir(exist_ok=True)
        place.write_bytes((folder / f"{source}.safetensors").read_bytes())
    more = [*map(str, places), "--random", "--last", "1", "--out", str(folder / "out")]
    assert main(words(folder, *more)) == 0
    records = [rs.Record.read(path) for path in (folder / "out").glob("*.json")]
    found = {record.method.label: record.method.weights for record in records}
    assert found.keys() == {"Original", "Reference", "cola", "cola 2", "Reference 2", "Random 2", "Random"}
    assert found["Original"] == found["cola"] == found["Reference 2"]
    assert found["Reference"] == found["cola 2"] == found["Random 2"]
    assert found["Original"] != found["Reference"]


def test_idi_refuses_settings_that_make_no_sense(folder, capsys):
    for more in (["--folds", "1"], ["--ratio", "1:99"], ["--last", "7"]):
        assert main(words(folder, *more, "--out", str(folder / "out"))) == 3
        assert len(capsys.readouterr().err.splitlines()) >= 1
    assert not (folder / "out").exists()


def test_calibrate_keeps_what_is_finished(tmp_path, monkeypatch, capsys):
    small = Problem("small", "shift", 200, 2, 1.5)
    monkeypatch.setattr(controls, "PROBLEMS", (small,))
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2"]) == 0
    first = rs.Record.read(tmp_path / "small.json")
    assert first.readings["information"]["truth"] == pytest.approx(small.truth())
    assert first.arrays["values"].shape == (2,)
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")
    assert "| small |" in (tmp_path / "table.md").read_text()
    computed = schedule._computed
    monkeypatch.setattr(schedule, "_computed", None)
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2"]) == 0
    assert rs.Record.read(tmp_path / "small.json") == first
    monkeypatch.setattr(schedule, "_computed", computed)
    monkeypatch.setattr(calibrating, "PART", 2)
    capsys.readouterr()
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "3"]) == 0
    more = rs.Record.read(tmp_path / "small.json")
    assert more.arrays["values"].shape == (3,)
    assert more.arrays["values"][:2].tolist() == first.arrays["values"].tolist()
    assert "small, 3 to 3" in capsys.readouterr().err, "the draws that were read are not read again"


def test_the_table_has_every_problem_that_was_read_as_it_is_today(tmp_path, monkeypatch, capsys):
    one, other = (Problem(name, "shift", 60, 2, 1.0) for name in ("one", "other"))
    monkeypatch.setattr(controls, "PROBLEMS", (one, other))
    for name in ("one", "other"):
        assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2", "--only", name]) == 0
    table = (tmp_path / "table.md").read_text()
    assert "| one |" in table
    assert "| other |" in table
    monkeypatch.setattr(controls, "PROBLEMS", (dataclasses.replace(one, strength=2.0), other))
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2", "--only", "other"]) == 0
    assert "| one |" not in (tmp_path / "table.md").read_text()


def test_calibrate_knows_its_problems(tmp_path, capsys):
    assert main(["calibrate", "--out", str(tmp_path), "--only", "hardest"]) == 3
    assert "there is no problem 'hardest'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
