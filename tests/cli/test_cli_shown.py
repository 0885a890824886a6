"""The images that models are shown: they stand in every record, and a rerun or a comparison that shows something else is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import residua as rs
from conftest import make_arrays
from residua.cli import main
from residua.compare import idi
from residua.data import Preprocessing, prepare
from residua.errors import InputError
from residua.measure import InformationCurve
from residua.record import TaskFacts

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = ["--data", "npz:data.npz", "--forget", "class:2"]
SHOWN = ["--mean", "0.4", "--std", "0.3"]
AUDIT = ["--last", "1", "--critic-steps", "5", "--critic-rounds", "1", "--budget", "1s", "--out", "audit"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Data, and models of others that carry no preprocessing."""
    names = ("train_images", "train_labels", "test_images", "test_labels")
    arrays = (*make_arrays(160, channels=3), *make_arrays(80, channels=3, seed=1))
    np.savez(tmp_path / "data.npz", **dict(zip(names, arrays, strict=True)))
    for seed, name in enumerate("our"):
        with rs.seeded(seed):
            model = rs.models.resnet18(classes=4, channels=3, width=2)
        torch.save(model.state_dict(), tmp_path / f"{name}.pth")
    monkeypatch.chdir(tmp_path)
    return tmp_path


MODELS = ["--original", "o.pth", "--unlearned", "u.pth", "--reference", "r.pth", "--network", "resnet18"]


def test_a_rerun_shows_the_models_what_the_audit_did(place, capsys):
    assert main(["audit", *MODELS, *DATA, *SHOWN, *AUDIT, "--family", "linear"]) in (0, 1, 2)
    task = json.loads((place / "audit/records/unlearned.json").read_text())["setting"]["task"]
    assert (task["mean"], task["std"]) == ([0.4] * 3, [0.3] * 3)
    # The data have moved, and nobody says again how they are shown: the record does.
    shutil.move("data.npz", "moved.npz")
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun", "--data", "npz:moved.npz"]) == 0
    assert "equal to the last bit" in capsys.readouterr().out
    assert main(["verify", "audit", "--rerun", "--data", "npz:moved.npz", "--normalise", "none"]) == 3
    said = capsys.readouterr().err
    assert "mean ([0.4, 0.4, 0.4] then, [0.0, 0.0, 0.0] now)" in said


def test_an_audit_lists_stages_by_model_and_block_and_no_round_of_a_critic(place, capsys):
    assert main(["audit", *MODELS[:4], "--reference", "proxy:0.9", *MODELS[6:], *DATA, *AUDIT]) in (0, 1, 2)
    lines = capsys.readouterr().err.splitlines()
    for role in ("unlearned", "original", "reference"):
        assert lines.count(f"{role}: information") == 1
        # A second time on moved images, if the budget lasts for them.
        moved = lines.count(f"{role}: moved")
        assert sum(line.startswith(f"{role}: information, ") for line in lines) == 1 + moved
        assert f"{role}: accuracy" in lines
    assert "of block 5" in " ".join(lines)
    trained = [line for line in lines if "epoch" in line]
    assert trained
    assert all(line.startswith("reference: training on 90 % of the retained data: epoch ") for line in trained)


def test_curves_of_images_shown_otherwise_are_neither_remembered_nor_compared(data):
    with rs.seeded(0):
        model = rs.models.resnet18(classes=4, channels=1, width=2)
    curve = InformationCurve(family="linear", last=1)
    tasks = [rs.forget_classes(prepare(data, Preprocessing(normalise=way)), 2) for way in ("none", "data")]
    one, other = (curve(model, task) for task in tasks)
    assert one.about["data"] == other.about["data"]
    assert not np.array_equal(one.arrays["terms"], other.arrays["terms"])
    with pytest.raises(InputError, match=r"their images differs \(mean \[0.0\] and"):
        idi(one, original=other, reference=other)
    assert len({task.manifest()["sha256"] for task in tasks}) == 2


def test_tasks_are_compared_by_what_both_say_and_not_by_last_digits(task):
    now = TaskFacts(**task.manifest())
    assert now.differs_from(now) == []
    old = now.model_copy(update={"mean": None, "std": None, "sha256": "another"})
    assert now.differs_from(old) == []
    nearly = now.model_copy(update={"mean": [value + 1e-12 for value in now.mean or []]})
    assert now.differs_from(nearly) == []
    other = now.model_copy(update={"mean": [0.5], "forgotten_classes": [3]})
    assert [each.partition(" (")[0] for each in now.differs_from(other)] == ["forgotten classes", "mean"]
