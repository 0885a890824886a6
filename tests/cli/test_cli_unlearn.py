"""`residua unlearn`, `tune`, `catalogue`, `list` and `recipes`."""

from __future__ import annotations

import json
import re

import pytest
import torch

import residua as rs
from residua import unlearn
from residua.cli import loaded, main
from residua.device import resolve_precision
from residua.models.classifier import weights_digest
from residua.record import Record
from residua.study import presets, schedule
from residua.study.cells import unlearn_seed
from residua.training import recipes

pytestmark = pytest.mark.usefixtures("one_thread")


def words(folder, method: str, *more: str) -> list[str]:
    original = ["--original", str(folder / "one.safetensors")]
    task = ["--data", f"mnist:{folder}", "--forget", "class:6"]
    return ["unlearn", "--method", method, *original, *task, "--out", str(folder / "u.safetensors"), *more]


def test_unlearn_makes_the_model_that_the_library_makes(folder, capsys):
    record = folder / "ft.json"
    settings = ["--epochs", "1", "--lr", "0.003", "--batch", "32", "--crop", "1", "--no-flip"]
    assert main(words(folder, "ft", *settings, "--seed", "5", "--record", str(record), "--trajectory")) == 0
    shown = capsys.readouterr()
    assert "FT" in shown.out
    assert "RTE" in shown.out
    found = rs.load(folder / "u.safetensors")
    task = rs.forget_classes(rs.data.mnist(folder), 6)
    with rs.seeded(5):
        method = unlearn.FineTune(epochs=1, lr=0.003, batch=32, crop=1, flip=False)
        expected = method(rs.load(folder / "one.safetensors"), task)
    # Watching the trajectory has changed nothing.
    assert weights_digest(found) == weights_digest(expected)
    kept = Record.read(record)
    assert kept.method.label == "FT"
    assert kept.method.fields["lr"] == 0.003
    assert kept.method.original == weights_digest(rs.load(folder / "one.safetensors"))
    assert kept.seconds["RTE"] > 0
    assert kept.seconds["RTE.load"] >= 0
    used = resolve_precision("auto", torch.device("cpu"))
    assert kept.setting.precision == str(used).removeprefix("torch.")
    assert kept.arrays["trajectory"].shape == (1, 3)
    assert kept.arrays["trajectory"][-1].tolist() == [kept.readings["accuracy"][k] for k in ("UA", "RA", "TA")]


def test_a_run_that_did_nothing_says_so(folder, capsys):
    original = rs.Pretraining(epochs=12, batch=16, lr=0.05, crop=0, flip=False)
    data = rs.data.mnist(folder)
    with rs.seeded(0):
        rs.save(original(rs.load(folder / "one.safetensors"), data.train), folder / "one.safetensors")
    assert main(words(folder, "FT", "--epochs", "1", "--lr", "0", "--batch", "32", "--crop", "0")) == 0
    said = capsys.readouterr().err
    assert "warning: nothing happened: UA is" in said
    assert "; raise epochs or lr" in said
    assert main(words(folder, "SSD", "--alpha", "1e9")) == 0
    assert "; lower alpha or dampening" in capsys.readouterr().err
    # Random loses everything, as it should.
    assert main(words(folder, "Random", "--scale", "full")) == 0
    assert "warning" not in capsys.readouterr().err


def test_the_record_says_which_precision_was_used(folder, monkeypatch):
    """That of a training where there was one, whatever the machine prefers."""
    monkeypatch.setattr("residua.cli.unlearn.resolve_precision", lambda asked, where: f"torch.{asked}")
    found = {}
    for method in ("Random", "SSD", "HD", "Retrain"):
        record = folder / f"{method.lower()}.json"
        assert main(words(folder, method, "--record", str(record))) == 0
        found[method] = Record.read(record).setting.precision
    assert found == {"Random": "float32", "SSD": "float32", "HD": "auto", "Retrain": "auto"}


def test_random_is_not_what_original_began_with(folder):
    """`residua train` begins with seed 0, and so did this network."""
    began = weights_digest(rs.load(folder / "one.safetensors"))
    assert main(words(folder, "Random", "--seed", "0")) == 0
    assert weights_digest(rs.load(folder / "u.safetensors")) == began
    assert main(words(folder, "Random")) == 0
    assert weights_digest(rs.load(folder / "u.safetensors")) != began


@pytest.mark.parametrize(
    ("method", "more", "sentence"),
    [
        ("Amnesia", [], "method 'Amnesia' is unknown; choose one of Original, Retrain, Random, HD"),
        (
            "FT",
            ["--gamma", "1"],
            "FT has no setting gamma; its settings are epochs, lr, schedule, crop, flip, momentum, weight_decay, optimizer, batch",
        ),
        ("FT", ["--lr", "-1"], "lr is -1.0, expected 0 or more"),
        ("COLA", ["--views", "3"], "views is 3, expected 1 to 2"),
        ("EU-5", ["--k", "99"], "k is 99, expected 1 to 21"),
        ("FT", ["--scale", "full"], "the paper has no class forgetting of resnet18 on mnist"),
        ("Retrain", ["--epochs", "3"], "Retrain has no setting epochs here"),
        ("Retrain", ["--lr", "3"], "make it with residua train --retrain"),
        ("UNSIR", ["--repair-lr", "-1"], "repair_lr is -1.0, expected 0 or more"),
        ("FT", ["--record", "Bad Name.json"], "must be named in lower-case letters"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_leaves_nothing(folder, capsys, method, more, sentence):
    assert main(words(folder, method, *more)) == 3
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert not (folder / "u.safetensors").exists()


def test_help_shows_the_settings_of_the_method_that_is_named_and_of_no_other(capsys):
    every = {name for method in unlearn.METHODS for name in method.__dataclass_fields__} - {"pretraining"}
    image = "normalise"  # an option for images, which every method has; COLA's field is --normalise-features
    every -= {image}
    for method in unlearn.METHODS:
        assert main(["unlearn", method.label, "--help"]) == 0
        shown = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
        own = set(method.__dataclass_fields__) & every
        assert {name for name in every if f"--{name.replace('_', '-')}" in shown} == own, method.label
    assert main(["unlearn", "--help"]) == 0
    shown = capsys.readouterr().out
    assert not [name for name in every if f"--{name.replace('_', '-')} " in shown]
    assert "residua unlearn COLA --help" in shown


def test_help_shows_the_defaults_that_would_be_used(capsys):
    tiny, small = (recipes.unlearning(scale, "class", "any", "any")["COLA"] for scale in ("tiny", "small"))
    assert tiny["collapse_lr"] != small["collapse_lr"]
    for scale, recipe in (("tiny", tiny), ("small", small)):
        assert main(["unlearn", "--method", "cola", "--scale", scale, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert f"default: ({recipe['collapse_lr']})" in shown
    assert main(["train", "--scale", "small", "--help"]) == 0
    assert f"default: ({recipes.SMALL.epochs})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words_", "sentence"),
    [
        (["unlearn", "--lr", "1"], "--lr is a setting of a method; name the method first"),
        (["unlearn", "FT", "--method", "RL"], "two methods were named, FT and RL"),
        (["unlearn"], "no method was named; write residua unlearn COLA"),
        (["tune"], "no method was named; write residua tune COLA"),
    ],
)
def test_which_method_is_meant_must_be_clear(folder, capsys, words_, sentence):
    arguments = [*words_, *words(folder, "-")[3:]]
    if words_[0] == "tune":
        arguments = [*arguments[:-2], "--reference", str(folder / "two.safetensors")]
    assert main(arguments) == 3
    assert sentence in capsys.readouterr().err


def test_tune_takes_finished_trials_from_the_store_and_goes_on(folder, capsys):
    arguments = ["tune", "FT", "--original", str(folder / "one.safetensors")]
    arguments += ["--reference", str(folder / "two.safetensors"), "--data", f"mnist:{folder}"]
    arguments += ["--forget", "class:6", "--epochs", "1", "--out", str(folder / "tuned"), "--jobs", "1"]
    cells = folder / "tuned/cells"
    assert main([*arguments, "--trials", "2"]) == 0
    first = capsys.readouterr()
    assert first.err.count("trial ") == 2
    before = {path: path.stat().st_mtime_ns for path in cells.iterdir()}
    assert len(before) == 2
    assert main([*arguments, "--trials", "2"]) == 0
    assert capsys.readouterr().out == first.out
    assert {path: path.stat().st_mtime_ns for path in cells.iterdir()} == before
    assert main([*arguments, "--trials", "3"]) == 0
    assert "trial 2:" in capsys.readouterr().err
    assert len(list(cells.iterdir())) == 3
    # What another aim makes of the same trials is arithmetic; another task or seed has others.
    for other, more in (
        (["--reference", str(folder / "one.safetensors")], 0),
        (["--seed", "1"], 1),
        (["--forget", "class:5"], 1),
    ):
        before_these = len(list(cells.iterdir()))
        assert main([*arguments, *other, "--trials", "1"]) == 0
        assert len(list(cells.iterdir())) == before_these + more


def test_tune_tries_the_best_of_an_earlier_search_again(folder, capsys):
    arguments = ["tune", "FT", "--original", str(folder / "one.safetensors")]
    arguments += ["--reference", str(folder / "two.safetensors"), "--data", f"mnist:{folder}"]
    arguments += ["--forget", "class:6", "--epochs", "1", "--jobs", "1", "--out"]
    assert main([*arguments, str(folder / "some"), "--trials", "3", "--part", "0.5"]) == 0
    capsys.readouterr()
    searched = folder / "some/records"
    again = [*arguments, str(folder / "all"), "--trials", "1", "--best-of", str(searched)]
    assert main(again) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trial ")]
    best = Record.read(searched / "search-seed0-ft.json").method.fields
    assert f"epochs=1, lr={best['lr']:.3g}" in line
    before = (searched / "search-seed0-ft.json").read_bytes()
    for words, sentence in (
        ([*arguments, str(folder / "some"), "--best-of", str(searched)], "would be overwritten"),
        ([*again[:-1], str(folder / "nothing")], "nothing"),
        ([*again[:-1], str(folder / "some")], "search-seed0-ft.json"),
        ([*again, "--part", "2"], "the part of the training data is 2"),
    ):
        assert main(words) == 3
        assert sentence in capsys.readouterr().err
    assert (searched / "search-seed0-ft.json").read_bytes() == before


def test_tune_tries_the_recipe_first_and_refuses_what_it_cannot_do(folder, capsys):
    recipe = recipes.unlearning("tiny", "class", "mnist", "resnet18")["FT"]
    arguments = ["tune", "FT", "--original", str(folder / "one.safetensors")]
    arguments += ["--reference", str(folder / "two.safetensors"), "--data", f"mnist:{folder}"]
    arguments += ["--forget", "class:6", "--epochs", str(recipe["epochs"]), "--out", str(folder / "first")]
    arguments += ["--jobs", "1"]
    assert main([*arguments, "--trials", "1"]) == 0
    assert f"with epochs={recipe['epochs']}, lr={recipe['lr']:.3g}" in capsys.readouterr().err
    assert main([*arguments, "--trials", "0"]) == 3
    assert main(["tune", "Original", *arguments[2:]]) == 3
    assert "Original has neither epochs nor a learning rate to be tuned" in capsys.readouterr().err
    assert main([*arguments[:4], *arguments[6:]]) == 3
    assert "--original and --reference belong together" in capsys.readouterr().err


@pytest.mark.usefixtures("as_if_in_processes", "quick_stack")
def test_a_built_in_study_runs_and_a_second_run_makes_nothing_again(folder, capsys, monkeypatch):
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    quick = rs.Pretraining(epochs=1, batch=32, crop=0)
    monkeypatch.setattr(presets, "pretraining", lambda *_: quick)
    monkeypatch.setattr(
        presets, "unlearning_of", lambda label, *_: {"pretraining": quick} if label == "Retrain" else {}
    )
    arguments = ["study", "run", "tiny", "--data", f"mnist:{folder}", "--forget", "class:6", "--out", str(folder / "c")]
    arguments += ["--method", "HD", "--method", "random", "--seeds", "2"]
    assert main(arguments) == 0
    first = capsys.readouterr()
    place = folder / "c/records"
    records = sorted(path.name for path in place.glob("*.json"))
    labels = ("hd", "original", "random", "retrain-2", "retrain-3", "retrain")
    expected = [f"seed{s}-{label}.json" for s in (0, 1) for label in labels]
    assert records == expected
    before = {name: (place / name).stat().st_mtime_ns for name in records}
    table = (folder / "c" / "table.md").read_text()
    assert "| HD |" in table
    assert "standard deviation of n models" in table
    kept = Record.read(place / "seed1-hd.json")
    assert (folder / "c/models" / f"{kept.method.weights}.safetensors").exists()
    assert kept.seeds == {"training": 1, "method": unlearn_seed(1)}
    assert {"RTE", "information", "mia"} <= set(kept.seconds)
    monkeypatch.setattr(schedule, "_computed", None)
    assert main(arguments) == 0
    assert capsys.readouterr().out == first.out
    assert before == {name: (place / name).stat().st_mtime_ns for name in records}


def test_lists_and_recipes_are_json(capsys):
    assert main(["explain", "methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["label"] for entry in listed] == [method.label for method in unlearn.METHODS]
    assert {"EU-5", "EU-10", "CF-5", "CF-10", "SSD", "UNSIR"} <= {entry["label"] for entry in listed}
    assert main(["explain", "recipes", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert set(tables) == {"class", "random"}
    assert tables["class"]["cifar10"]["vit"]["SCRUB"]["forget_batch"] == 64
    assert tables["class"]["cifar10"]["resnet18"]["pretraining"]["epochs"] == 300
    assert main(["explain", "recipes", "--scale", "tiny", "--json"]) == 0
    ours = json.loads(capsys.readouterr().out)["class"]["any"]["any"]
    assert {"COLA", "pretraining"} <= ours.keys()
    assert main(["explain", "measures"]) == 0
    assert main(["explain", "recipes"]) == 0
    capsys.readouterr()


def test_recipes_can_be_filtered(capsys):
    words_ = ["explain", "recipes", "--method", "cola", "--data", "cifar10", "--network", "vit", "--scenario", "class"]
    assert main([*words_, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["class"]
    assert list(found["class"]) == ["cifar10"]
    assert list(found["class"]["cifar10"]) == ["vit"]
    assert list(found["class"]["cifar10"]["vit"]) == ["COLA"]
    assert main([*words_, "--data", "nonsense"]) == 3
    assert "no recipe of the full scale fits" in capsys.readouterr().err


def test_options_for_images_and_fields_of_methods_are_kept_apart(folder, capsys):
    options = {option for each in loaded("unlearn", ["COLA"]).params for option in each.opts}
    assert {"--normalise-features", "--normalise"} <= options
    assert main([*words(folder, "HD"), "--normalise", "nonsense"]) == 3
    assert "nonsense" in capsys.readouterr().err
    assert main([*words(folder, "HD"), "--normalise-features"]) == 3
    assert "HD has no setting normalise_features" in capsys.readouterr().err
