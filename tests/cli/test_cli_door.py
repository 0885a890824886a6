"""Anybody's network and data on the command line, and nothing silently wrong."""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open

import residua as rs
from residua.cli import main

pytestmark = pytest.mark.usefixtures("one_thread")

CODE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes, channels):
        super().__init__()
        self.one = nn.Conv2d(channels, 6, 3, padding=1)
        self.two = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.out = nn.Linear(8, classes)

    def forward(self, x):
        return self.out(self.two(self.one(x).relu()).relu().mean((2, 3)))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with data in an npz file and a network of the user's own."""
    rng = np.random.default_rng(0)
    arrays = {}
    for half, n in (("train", 160), ("test", 80)):
        labels = np.arange(n) % 4
        level = 40 + 50 * labels[:, None, None, None]
        arrays[f"{half}_images"] = (level + rng.normal(0, 12, (n, 3, 8, 8))).clip(0, 255).astype(np.uint8)
        arrays[f"{half}_labels"] = labels
    np.savez(tmp_path / "data.npz", **arrays)
    (tmp_path / "theircode.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("theircode", None)


DATA = ["--data", "npz:data.npz", "--forget", "class:2"]
QUICK = ["--epochs", "2", "--batch", "32", "--lr", "0.05", "--crop", "0"]
AUDIT = ["--last", "1", "--critic-epochs", "1", "--budget", "1s"]


def run(*words: str, code: int | tuple[int, ...] = 0) -> None:
    found = main([str(word) for word in words])
    assert found in ((code,) if isinstance(code, int) else code), words


@pytest.mark.parametrize(
    ("network", "more"),
    [("theircode:Net", ["--cuts", "one,two"]), ("timm:convnext_atto,depths=[1,1,1,1],dims=[4,4,4,8]", [])],
)
def test_an_adopted_network_is_trained_unlearned_measured_and_audited(place, network, more, request, capsys):
    if network.startswith("timm"):
        request.getfixturevalue("timm")
        more_later: list[str] = []  # the checkpoint says it all
        data = ["--data", "npz:data.npz?size=32", *DATA[2:]]
    else:
        more_later = ["--network", network, *more]
        data = DATA
    run("train", *data, "--network", network, *more, *QUICK, "--out", "o.safetensors")
    run("train", *data, "--network", network, *more, *QUICK, "--retrain", "--seed", "1", "--out", "r.safetensors")
    run("unlearn", "FT", "--original", "o.safetensors", *DATA, *more_later, "--epochs", "1", "--out", "u.safetensors")
    capsys.readouterr()
    run("measure", "u.safetensors", "--original", "o.safetensors", *DATA, *more_later, "--json")
    assert 0 <= json.loads(capsys.readouterr().out)[0]["UA"] <= 1
    models = ["--original", "o.safetensors", "--unlearned", "u.safetensors", "--reference", "r.safetensors"]
    run("audit", *models, *DATA, *more_later, *AUDIT, "--out", "audit", code=(0, 1, 2))
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("Images 3 x ")
    assert "(as o.safetensors says)" in first
    assert "Original's accuracy: " in first
    assert "% on test, " in first
    run("verify", "audit")


def test_what_the_checkpoint_carries_is_what_the_model_sees(place, capsys):
    run("train", *DATA, "--normalise", "none", *QUICK, "--width", "2", "--out", "o.safetensors")
    with safe_open("o.safetensors", framework="pt") as file:
        kept = json.loads(file.metadata()["residua"])["preprocessing"]
    assert kept == {"shape": [3, 8, 8], "mean": [0.0] * 3, "std": [1.0] * 3}
    values = {}
    for name, more in {
        "carried": [],
        "same": ["--normalise", "none"],
        "other": ["--mean", "0.9", "--std", "0.01"],
    }.items():
        capsys.readouterr()
        run("measure", "o.safetensors", *DATA, *more, "--json")
        values[name] = json.loads(capsys.readouterr().out)[0]
    assert values["carried"] == values["same"]
    assert values["carried"] != values["other"]


def test_an_audit_asks_when_original_is_near_chance(place, capsys):
    run("train", *DATA, *QUICK, "--epochs", "4", "--width", "4", "--out", "o.safetensors")
    models = ["--original", "o.safetensors", "--unlearned", "o.safetensors"]
    run("audit", *models, *DATA, *AUDIT, code=(0, 1, 2))
    assert "warning: Original is near chance" not in capsys.readouterr().err
    run("audit", *models, *DATA, "--mean", "0.99", "--std", "0.001", *AUDIT, code=(0, 1, 2))
    said = capsys.readouterr().err.splitlines()
    assert "(as asked)" in said[0]
    assert said[1].startswith("warning: Original is near chance (25.0 %)")


def test_models_that_expect_different_images_are_not_shown_the_same_in_silence(place, capsys):
    for name, way in (("o", "none"), ("u", "imagenet")):
        run("train", *DATA, "--normalise", way, *QUICK, "--epochs", "1", "--width", "2", "--out", f"{name}.safetensors")
    run("audit", "--original", "o.safetensors", "--unlearned", "u.safetensors", *DATA, code=3)
    assert "another size or normalisation" in capsys.readouterr().err


def test_a_vit_at_full_scale_needs_weights_to_start_from(place, capsys):
    run("train", *DATA, "--network", "vit", "--scale", "full", "--out", "o.safetensors", code=3)
    assert "give them with --init FILE" in capsys.readouterr().err


def test_the_hash_of_what_a_training_started_from_is_in_its_record(place):
    with rs.seeded(0):
        rs.save(rs.models.resnet18(classes=7, channels=3, width=2, stem="imagenet"), "start.safetensors")
    run(
        "train", *DATA, *QUICK, "--epochs", "1", "--width", "2", "--init", "start.safetensors",
        "--out", "o.safetensors", "--record", "o.json",
    )  # fmt: skip
    assert len(json.loads((place / "o.json").read_text())["method"]["init"]) == 64


def test_data_are_described_as_they_are_shown_and_named(place, capsys):
    run(
        "data",
        "show",
        "--data",
        "npz:data.npz",
        "--size",
        "16",
        "--normalise",
        "imagenet",
        "--dataset-name",
        "cifar10",
        "--json",
    )
    about = json.loads(capsys.readouterr().out)
    assert (about["name"], about["shape"], about["mean"]) == ("cifar10", [3, 16, 16], [0.485, 0.456, 0.406])
    run("explain", "UA")
    run("audit", "--original", "a", "--unlearned", "b", "--outputs", "--size", "32", code=3)
    assert "--size is about images" in capsys.readouterr().err


def test_a_third_partys_resnet_reports_what_its_weights_do_not_show(place, capsys):
    model = rs.models.resnet18(classes=4, channels=3, width=2)
    torch.save(model.state_dict(), "theirs.pth")
    run("measure", "theirs.pth", "--network", "resnet18", *DATA)
    assert "note: theirs.pth: the weights do not show stride and pooling" in capsys.readouterr().err


def test_a_training_starts_from_a_pickle_only_where_its_maker_is_trusted(place, capsys):
    with rs.seeded(0):
        model = rs.models.resnet18(classes=7, channels=3, width=2, stem="cifar-pool")
    torch.save({"model": model.state_dict(), "options": argparse.Namespace(lr=1)}, "theirs.pth")
    train = ["train", *DATA, *QUICK, "--epochs", "0", "--width", "2", "--network", "resnet18,stem=cifar-pool"]
    run(*train, "--init", "theirs.pth", "--out", "o.safetensors", code=3)
    assert "or pass --trust" in capsys.readouterr().err
    run(*train, "--init", "theirs.pth", "--trust", "--retrain", "--out", "o.safetensors")
    assert "note: theirs.pth: head.weight, head.bias have new random weights" in capsys.readouterr().err
    begun = rs.load("o.safetensors")
    assert begun.architecture["stem"] == "cifar-pool"
    assert torch.equal(begun.blocks[0][0].weight, model.blocks[0][0].weight)


@pytest.mark.parametrize("command", ["train", "unlearn", "tune", "audit", "measure", "verify"])
def test_every_command_that_opens_models_takes_somebodys_network(command, capsys):
    run(command, "--help")
    said = capsys.readouterr().out
    assert all(option in said for option in ("--network", "--cuts", "--trust"))


@pytest.mark.parametrize("words", ["csv:table.csv", "npz:table.npz", "npz:named.npz"])
def test_tables_and_text_are_shown_the_way_to_saved_features(place, words, capsys):
    (place / "table.csv").write_text("age,income,label\n34,200,1\n22,100,0\n")
    table = {
        f"{half}_{what}": np.ones((4, 3)[: 2 - (what == "labels")])
        for half in ("train", "test")
        for what in ("images", "labels")
    }
    np.savez("table.npz", **table)
    np.savez("named.npz", X=np.ones((4, 3)), y=np.ones(4))
    run("data", "show", "--data", words, code=3)
    assert "audited by features that they saved (docs/saved.md)" in capsys.readouterr().err
