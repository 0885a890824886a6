"""The paper's hyperparameter tables, checked against how they are printed, and ours."""

from __future__ import annotations

import pytest

import residua as rs
from residua import unlearn
from residua.recipes import UNLEARNING, unlearning, unlearning_of

BASELINES = {"FT", "RL", "GA", "Bad-T", "EU-5", "EU-10", "CF-5", "CF-10", "SCRUB", "SALUN", "l1-sparse"}

# Learning rates as the tables print them, a column of ResNet-18, ResNet-50, ViT where it has three.
RATES = {
    ("class", "cifar10"): {
        "FT": "1e-5 1e-5 1e-4",
        "RL": "1e-5 2e-5 1e-3",
        "GA": "2e-3 2e-3 5e-3",
        "Bad-T": "1e-5 1e-5 1e-5",
        "EU-10": "1e-2 1e-2 1e-2",
        "CF-5": "1e-2 1e-2 3e-2",
        "SCRUB": "5e-4 5e-4 1e-4",
        "SALUN": "5e-4 1e-3 1e-3",
        "l1-sparse": "2e-4 2e-4 9e-4",
    },
    ("class", "cifar100"): {
        "FT": "1e-5 1e-5 1e-4",
        "RL": "2e-5 1e-4 1e-4",
        "GA": "9e-4 9e-4 5e-3",
        "CF-10": "1e-2 1e-2 3e-2",
        "SCRUB": "5e-4 5e-4 5e-4",
        "SALUN": "1e-3 1e-3 1e-3",
        "l1-sparse": "2e-4 2e-4 5e-4",
    },
    ("class", "imagenet"): {
        "FT": "1e-5 1e-5",
        "RL": "1e-3 1e-4",
        "GA": "2e-3 1e-3",
        "EU-5": "5e-3 5e-3",
        "SCRUB": "5e-4 1e-4",
        "SALUN": "1e-3 1e-3",
        "l1-sparse": "9e-4 9e-4",
    },
    ("random", "cifar10"): {
        "FT": "1e-4",
        "GA": "2.5e-3",
        "EU-5": "1e-1",
        "SCRUB": "2.5e-5",
        "SALUN": "8.3e-4",
    },
    ("random", "cifar100"): {
        "FT": "2e-4",
        "RL": "5e-4",
        "CF-5": "5e-2",
        "SCRUB": "5.4e-4",
        "l1-sparse": "3e-4",
    },
}


@pytest.mark.parametrize(("scenario", "dataset"), RATES)
def test_learning_rates_are_the_tables(scenario, dataset):
    networks = UNLEARNING[scenario][dataset]
    for label, printed in RATES[scenario, dataset].items():
        expected = [float(rate) for rate in printed.split()]
        assert [recipe[label]["lr"] for recipe in networks.values()] == expected, label


def test_epochs_and_batches_are_the_tables():
    table = UNLEARNING["class"]
    assert [r["RL"]["epochs"] for r in table["cifar10"].values()] == [7, 7, 10]
    assert [r["CF-5"]["epochs"] for r in table["cifar100"].values()] == [14, 14, 18]
    assert [r["SALUN"]["epochs"] for r in table["cifar100"].values()] == [15, 15, 15]
    assert [r["SCRUB"]["forget_batch"] for r in table["cifar10"].values()] == [256, 256, 64]
    assert [r["SCRUB"]["forget_batch"] for r in table["cifar100"].values()] == [8, 8, 8]
    assert [r["FT"]["epochs"] for r in table["imagenet"].values()] == [3, 4]
    assert [r["SALUN"]["epochs"] for r in table["imagenet"].values()] == [5, 2]
    assert table["cifar10"]["resnet18"]["SCRUB"] == {
        "epochs": 3, "forget_epochs": 2, "lr": 5e-4, "retain_batch": 64, "forget_batch": 256,
    }  # fmt: skip
    assert table["imagenet"]["vit"]["COLA"] == {
        "collapse_epochs": 1, "align_epochs": 2, "collapse_lr": 5e-5, "align_lr": 5e-5, "batch": 256,
    }  # fmt: skip
    assert table["cifar100"]["resnet50"]["COLA"] == {
        "collapse_epochs": 10, "align_epochs": 10, "collapse_lr": 5e-4, "align_lr": 1e-5, "batch": 256,
    }  # fmt: skip
    assert UNLEARNING["random"]["cifar100"]["resnet18"]["COLA+"] == {
        "collapse_epochs": 10, "align_epochs": 10, "collapse_lr": 2.5e-4, "align_lr": 2e-5,
        "retain_batch": 64, "forget_batch": 192,
    }  # fmt: skip


def test_every_table_has_every_row_and_every_row_makes_a_method():
    for scenario, datasets in UNLEARNING.items():
        last = "COLA" if scenario == "class" else "COLA+"
        for dataset, networks in datasets.items():
            for network, recipe in networks.items():
                assert set(recipe) == BASELINES | {last}, (scenario, dataset, network)
                for label, fields in recipe.items():
                    assert unlearn.find(label, **fields).label == label
    assert set(UNLEARNING["class"]["imagenet"]) == {"resnet50", "vit"}
    assert set(UNLEARNING["random"]) == {"cifar10", "cifar100"}
    assert set(UNLEARNING["random"]["cifar10"]) == {"resnet18"}


@pytest.mark.parametrize("scale", ["tiny", "small"])
@pytest.mark.parametrize("scenario", ["class", "random"])
def test_our_recipes_serve_every_method_of_the_paper(scale, scenario):
    recipe = unlearning(scale, scenario, "anything", "resnet18")
    last = {"COLA"} if scenario == "class" else {"COLA", "COLA+"}
    assert BASELINES | {"HD", "Retrain"} | last <= set(recipe)
    for label, fields in recipe.items():
        assert unlearn.find(label, **fields).label == label


def test_a_missing_recipe_is_one_sentence():
    with pytest.raises(
        rs.InputError, match="no random forgetting of vit on imagenet, only cifar10 with resnet18"
    ):
        unlearning("full", "random", "imagenet", "vit")
    with pytest.raises(rs.InputError, match="scale 'huge' is unknown"):
        unlearning("huge", "class", "cifar10", "resnet18")


def test_a_method_outside_the_papers_tables_keeps_its_defaults_on_any_data():
    for label in ("HD", "Random", "SSD", "UNSIR", "Boundary Shrink"):
        assert unlearning_of(label, "full", "class", "fashion", "resnet18") == {}
        assert unlearning_of(label, "full", "class", "cifar10", "resnet18") == {}
    for label in ("FT", "COLA", "Retrain"):
        with pytest.raises(rs.InputError, match="no class forgetting of resnet18 on fashion"):
            unlearning_of(label, "full", "class", "fashion", "resnet18")
    assert unlearning_of("GA", "full", "class", "cifar10", "vit")["lr"] == 5e-3
    assert (
        unlearning_of("HD", "tiny", "class", "any", "any") == unlearning("tiny", "class", "any", "any")["HD"]
    )
