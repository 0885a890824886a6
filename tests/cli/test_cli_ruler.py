"""`residua idi` and `residua calibrate`."""

from __future__ import annotations

import pytest

import residua as rs
from residua.calibration import Problem
from residua.cli import calibrate, main
from residua.compare import curve_of, idi

pytestmark = pytest.mark.usefixtures("one_thread")


def words(folder, *more: str) -> list[str]:
    models = ["--original", str(folder / "one.safetensors"), "--reference", str(folder / "two.safetensors")]
    return ["idi", *models, "--data", f"mnist:{folder}", "--forget", "class:6", "--epochs", "1", *more]


def test_idi_writes_records_from_which_it_can_be_computed_again(folder, capsys):
    out = folder / "out"
    third = folder / "Third model.safetensors"
    third.write_bytes((folder / "one.safetensors").read_bytes())
    assert main(words(folder, str(third), "--random", "--out", str(out))) == 0
    printed = capsys.readouterr().out
    assert all(label in printed for label in ("Original", "Retrain", "Third model", "Random", "IDI"))
    curves = {path.stem: curve_of(rs.Record.read(path)) for path in out.glob("*.json")}
    assert set(curves) == {"original", "retrain", "third-model", "random"}
    same = idi(curves["third-model"], original=curves["original"], reference=curves["retrain"])
    assert same.id_unlearned == same.id_original
    assert (out / "table.md").exists()


def test_idi_refuses_settings_that_make_no_sense(folder, capsys):
    for more in (["--folds", "1"], ["--ratio", "1:99"], ["--last", "7"]):
        assert main(words(folder, *more, "--out", str(folder / "out"))) == 3
        assert len(capsys.readouterr().err.splitlines()) >= 1
    assert not (folder / "out").exists()


def test_calibrate_keeps_what_is_finished(tmp_path, monkeypatch, capsys):
    small = Problem("small", "shift", 200, 2, 1.5)
    monkeypatch.setattr(calibrate, "PROBLEMS", (small,))
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2"]) == 0
    first = rs.Record.read(tmp_path / "small.json")
    assert first.readings["information"]["truth"] == pytest.approx(small.truth())
    assert first.arrays["values"].shape == (2,)
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")
    assert "| small |" in (tmp_path / "table.md").read_text()
    capsys.readouterr()
    assert main(["calibrate", "--out", str(tmp_path), "--repeats", "2"]) == 0
    assert "0 problems to read, 1 already there" in capsys.readouterr().err


def test_calibrate_knows_its_problems(tmp_path, capsys):
    assert main(["calibrate", "--out", str(tmp_path), "--only", "hardest"]) == 3
    assert "there is no problem 'hardest'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
