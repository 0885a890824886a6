"""`residua ulira`: end to end on small data, its preview and its budget."""

from __future__ import annotations

import re

import numpy as np
import pytest

import residua as rs
from residua import compare
from residua.cli import main
from residua.record import Record
from residua.study import shadows
from residua.study.shadows import Cost, Shadows, ShadowTraining, sides

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(folder, capsys):
    def call(*words: str) -> tuple[int, str, str]:
        small = ["--of-class", "all", "--size", "10", "--models", "4", "--forget-sets", "2"]
        place = ["--data", f"mnist:{folder}", "--out", str(folder / "u")]
        code = main(["ulira", *place, *small, *words])
        return code, *capsys.readouterr()

    return call


@pytest.mark.usefixtures("as_if_in_processes")
def test_methods_share_shadow_models_and_nothing_is_made_twice(run, folder, monkeypatch):
    code, out, err = run("--method", "HD", "--jobs", "2")
    assert code == 0, err
    assert "To make: 4 of 4 shadow models" in err
    assert "HD: 8 of 8 unlearned models" in err
    assert "20/20" in err  # four models, and Original's scores too
    assert "4 shadow models, 2 forget sets of 10 of all classes" in out
    place = folder / "u"
    assert len(list((place / "models").glob("*.safetensors"))) == 4
    record = Record.read(place / "hd.json")
    found = compare.ulira(compare.observations(record.arrays), sides(4), "shared")
    assert found.values == record.readings["U-LiRA"]
    assert len(record.arrays["score"]) == 4 * 2 * 20
    assert np.isfinite(record.arrays["score"]).all()
    assert record.arrays["trained"].sum() == 4 * 2 * 20 / 2  # of each pair, one model
    assert {"Original", "HD"} == {Record.read(place / f"{name}.json").method.label for name in ("original", "hd")}

    monkeypatch.setattr(ShadowTraining, "run", None)
    code, out_again, err = run("--method", "HD", "--jobs", "1")
    assert code == 0, err
    assert out_again == out
    assert "Together about 0.0 s" in err
    assert "20/20" not in err, "nothing was computed"
    code, out, err = run("--method", "HD", "--method", "ft", "--jobs", "1", "--variance", "example")
    assert code == 0, err
    assert "FT" in out
    assert "FT: 8 of 8 unlearned models" in err
    assert "enough shadow scores" in out  # two scores a side, one of them in each set
    assert (place / "table.md").read_text().count("\n| ") == 5


def test_what_costs_more_than_the_budget_is_refused_with_numbers_that_fit(run, folder, monkeypatch):
    """Ten seconds for everything: N models and M sets of two methods take N (10 + 20 M)."""
    monkeypatch.setattr(shadows, "cost", lambda *_: Cost(10.0))
    numbers = ["--models", "8", "--forget-sets", "4", "--method", "FT", "--jobs", "1"]
    code, out, err = run(*numbers, "--budget", "5m")
    assert (code, out) == (3, "")
    assert "8 models with 4 forget sets take about 12 m, more than --budget 5.0 m" in err
    assert err.strip().endswith("the largest numbers that fit are --models 4 --forget-sets 3")
    assert len(err.splitlines()) == 2
    code, _, err = run(*numbers, "--budget", "90s")
    assert code == 3
    assert "even 4 models with 1 forget set take 2.0 m" in err
    assert not (folder / "u").exists()
    monkeypatch.setattr(shadows, "computing", lambda *_: pytest.fail("started"))
    monkeypatch.setattr(shadows, "cost", lambda *_: Cost(100.0, whole=False))
    code, _, err = run(*numbers, "--budget", "59m", "--jobs", "2")
    assert code == 3
    assert "FT: 32 of 32 unlearned models, at least 100 s each" in err
    assert "Together at least 60 m with 2 at a time" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "Amnesia"], "method 'Amnesia' is unknown"),
        (["--method", "FT", "--models", "6"], "expected a multiple of 4"),
        (["--method", "FT", "--size", "3"], "expected 10 or more"),
        (["--method", "FT", "--of-class", "shirt"], "'shirt' is not understood"),
        (["--method", "FT", "--of-class", "11"], "class 11 is not in mnist"),
        (["--method", "FT", "--of-class", "3"], "has 24"),
        (["--method", "FT", "--scale", "full"], "the paper has no pretraining of resnet18 on mnist"),
        (["--method", "FT", "--budget", "soon"], "write 90s, 10m, 2h or 3d"),
        (["--method", "FT", "--budget", "0m"], "write 90s, 10m, 2h or 3d"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_before_anything_starts(run, folder, words, sentence):
    code, out, err = run(*words)
    assert (code, out) == (3, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not (folder / "u").exists()


def test_a_method_that_fails_says_on_which_model_and_what_is_finished_stays(run, folder, monkeypatch):
    unlearned, calls = Shadows.unlearned, []

    def fail_once(self, method, *more):
        calls.append(method.label)
        if len(calls) == 3:
            raise rs.InputError("the loss is nan; use a smaller learning rate")
        return unlearned(self, method, *more)

    monkeypatch.setattr(shadows, "cost", lambda *_: Cost(1.0))
    monkeypatch.setattr(Shadows, "unlearned", fail_once)
    code, out, err = run("--method", "Random", "--jobs", "1")
    assert (code, out) == (3, "")
    assert re.search(r"on shadow model \d and forget set \d: the loss is nan", err)
    assert len(calls) == 16, "the others go on"
    code, _, err = run("--method", "Random", "--jobs", "1")
    assert code == 0, err
    assert len(calls) == 17


def test_two_shadow_models_with_the_same_weights_are_refused(run, monkeypatch):
    """One of them would be the target and the other its shadow."""
    with rs.seeded(0):
        fixed = rs.models.resnet18(classes=10, channels=1, width=8)
    monkeypatch.setattr(rs.Pretraining, "__call__", lambda *_: rs.clone(fixed))
    code, out, err = run("--method", "HD", "--jobs", "1")
    assert (code, out) == (3, "")
    assert "two shadow models have the same weights" in err
