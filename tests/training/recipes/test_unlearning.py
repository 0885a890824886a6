"""The paper's hyperparameter tables, checked against how they are printed, and ours."""

from __future__ import annotations

import pytest

import residua as rs
from residua import unlearn
from residua.training.recipes import UNLEARNING, pretraining, unlearning, unlearning_of

BASELINES = {"FT", "RL", "GA", "Bad-T", "EU-5", "EU-10", "CF-5", "CF-10", "SCRUB", "SALUN", "l1-sparse"}

# The two tables, row by row, each number as it is printed: one for all networks, or one for each of ResNet-18,
# ResNet-50 and ViT (ImageNet: ResNet-50 and ViT). Where one cell stands for CIFAR-10 and CIFAR-100 it is written twice.
TABLES = {
    ("class", "cifar10"): [
        ("FT", {"epochs": "25", "lr": "1e-5 1e-5 1e-4", "batch": "64"}),
        ("RL", {"epochs": "7 7 10", "lr": "1e-5 2e-5 1e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("GA", {"epochs": "10", "lr": "2e-3 2e-3 5e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("Bad-T", {"epochs": "10", "lr": "1e-5", "batch": "256"}),
        ("EU-5", {"k": "5", "epochs": "14", "lr": "1e-2", "batch": "64"}),
        ("EU-10", {"k": "10", "epochs": "14", "lr": "1e-2", "batch": "64"}),
        ("CF-5", {"k": "5", "epochs": "14 14 18", "lr": "1e-2 1e-2 3e-2", "batch": "64"}),
        ("CF-10", {"k": "10", "epochs": "14 14 18", "lr": "1e-2 1e-2 3e-2", "batch": "64"}),
        ("SCRUB", {"epochs": "3", "forget_epochs": "2", "lr": "5e-4 5e-4 1e-4",
                   "retain_batch": "64", "forget_batch": "256 256 64"}),
        ("SALUN", {"epochs": "10", "lr": "5e-4 1e-3 1e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("l1-sparse", {"epochs": "10", "lr": "2e-4 2e-4 9e-4", "batch": "64"}),
        ("COLA", {"collapse_epochs": "10", "align_epochs": "10", "collapse_lr": "2e-4 2e-4 1.5e-4",
                  "align_lr": "5e-6 1e-5 5e-5", "batch": "64"}),
    ],
    ("class", "cifar100"): [
        ("FT", {"epochs": "25", "lr": "1e-5 1e-5 1e-4", "batch": "64"}),
        ("RL", {"epochs": "7 7 10", "lr": "2e-5 1e-4 1e-4", "retain_batch": "64", "forget_batch": "16"}),
        ("GA", {"epochs": "10", "lr": "9e-4 9e-4 5e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("Bad-T", {"epochs": "10", "lr": "1e-5", "batch": "256"}),
        ("EU-5", {"k": "5", "epochs": "14", "lr": "1e-2", "batch": "64"}),
        ("EU-10", {"k": "10", "epochs": "14", "lr": "1e-2", "batch": "64"}),
        ("CF-5", {"k": "5", "epochs": "14 14 18", "lr": "1e-2 1e-2 3e-2", "batch": "64"}),
        ("CF-10", {"k": "10", "epochs": "14 14 18", "lr": "1e-2 1e-2 3e-2", "batch": "64"}),
        ("SCRUB", {"epochs": "3", "forget_epochs": "2", "lr": "5e-4", "retain_batch": "128", "forget_batch": "8"}),
        ("SALUN", {"epochs": "15", "lr": "1e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("l1-sparse", {"epochs": "10", "lr": "2e-4 2e-4 5e-4", "batch": "64"}),
        ("COLA", {"collapse_epochs": "10", "align_epochs": "10", "collapse_lr": "5e-4 5e-4 5e-4",
                  "align_lr": "5e-6 1e-5 5e-5", "batch": "256"}),
    ],
    ("class", "imagenet"): [
        ("FT", {"epochs": "3 4", "lr": "1e-5", "batch": "128"}),
        ("RL", {"epochs": "3", "lr": "1e-3 1e-4", "retain_batch": "128", "forget_batch": "16"}),
        ("GA", {"epochs": "3", "lr": "2e-3 1e-3", "retain_batch": "128", "forget_batch": "16"}),
        ("Bad-T", {"epochs": "3", "lr": "1e-5", "batch": "256"}),
        ("EU-5", {"k": "5", "epochs": "2", "lr": "5e-3", "batch": "128"}),
        ("EU-10", {"k": "10", "epochs": "2", "lr": "5e-3", "batch": "128"}),
        ("CF-5", {"k": "5", "epochs": "5", "lr": "5e-3", "batch": "128"}),
        ("CF-10", {"k": "10", "epochs": "5", "lr": "5e-3", "batch": "128"}),
        ("SCRUB", {"epochs": "2", "forget_epochs": "2", "lr": "5e-4 1e-4",
                   "retain_batch": "128", "forget_batch": "256"}),
        ("SALUN", {"epochs": "5 2", "lr": "1e-3", "retain_batch": "128", "forget_batch": "16"}),
        ("l1-sparse", {"epochs": "5", "lr": "9e-4", "batch": "128"}),
        ("COLA", {"collapse_epochs": "1", "align_epochs": "2", "collapse_lr": "2e-5 5e-5",
                  "align_lr": "1e-5 5e-5", "batch": "256"}),
    ],
    ("random", "cifar10"): [
        ("FT", {"epochs": "25", "lr": "1e-4", "batch": "64"}),
        ("RL", {"epochs": "7", "lr": "1e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("GA", {"epochs": "10", "lr": "2.5e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("Bad-T", {"epochs": "10", "lr": "1e-5", "batch": "256"}),
        ("EU-5", {"k": "5", "epochs": "14", "lr": "1e-1", "batch": "64"}),
        ("EU-10", {"k": "10", "epochs": "14", "lr": "1e-1", "batch": "64"}),
        ("CF-5", {"k": "5", "epochs": "14", "lr": "1e-1", "batch": "64"}),
        ("CF-10", {"k": "10", "epochs": "14", "lr": "1e-1", "batch": "64"}),
        ("SCRUB", {"epochs": "5", "forget_epochs": "5", "lr": "2.5e-5", "retain_batch": "16", "forget_batch": "64"}),
        ("SALUN", {"epochs": "10", "lr": "8.3e-4", "retain_batch": "64", "forget_batch": "16"}),
        ("l1-sparse", {"epochs": "10", "lr": "4e-4", "batch": "64"}),
        ("COLA+", {"collapse_epochs": "10", "align_epochs": "10", "collapse_lr": "2e-4", "align_lr": "1e-4",
                   "retain_batch": "32", "forget_batch": "64"}),
    ],
    ("random", "cifar100"): [
        ("FT", {"epochs": "25", "lr": "2e-4", "batch": "64"}),
        ("RL", {"epochs": "7", "lr": "5e-4", "retain_batch": "64", "forget_batch": "16"}),
        ("GA", {"epochs": "10", "lr": "1e-3", "retain_batch": "64", "forget_batch": "16"}),
        ("Bad-T", {"epochs": "10", "lr": "1e-5", "batch": "256"}),
        ("EU-5", {"k": "5", "epochs": "14", "lr": "5e-2", "batch": "64"}),
        ("EU-10", {"k": "10", "epochs": "14", "lr": "5e-2", "batch": "64"}),
        ("CF-5", {"k": "5", "epochs": "14", "lr": "5e-2", "batch": "64"}),
        ("CF-10", {"k": "10", "epochs": "14", "lr": "5e-2", "batch": "64"}),
        ("SCRUB", {"epochs": "5", "forget_epochs": "5", "lr": "5.4e-4", "retain_batch": "16", "forget_batch": "64"}),
        ("SALUN", {"epochs": "15", "lr": "5e-4", "retain_batch": "64", "forget_batch": "16"}),
        ("l1-sparse", {"epochs": "10", "lr": "3e-4", "batch": "64"}),
        ("COLA+", {"collapse_epochs": "10", "align_epochs": "10", "collapse_lr": "2.5e-4", "align_lr": "2e-5",
                   "retain_batch": "64", "forget_batch": "192"}),
    ],
}  # fmt: skip
NETWORKS = {"cifar10": ("resnet18", "resnet50", "vit"), "imagenet": ("resnet50", "vit")}


@pytest.mark.parametrize(("scenario", "dataset"), TABLES)
def test_every_cell_is_the_tables(scenario, dataset):
    networks = ("resnet18",) if scenario == "random" else NETWORKS.get(dataset, NETWORKS["cifar10"])
    assert tuple(UNLEARNING[scenario][dataset]) == networks
    # [ours] where the images are larger: an eighth of their side, as for CIFAR.
    ours = {"crop": 28} if dataset == "imagenet" else {}
    for place, network in enumerate(networks):
        expected = {}
        for label, row in TABLES[scenario, dataset]:
            printed = {name: words.split() for name, words in row.items()}
            assert {len(values) for values in printed.values()} <= {1, len(networks)}, label
            expected[label] = ours | {
                name: float(values[place] if len(values) > 1 else values[0]) for name, values in printed.items()
            }
        assert UNLEARNING[scenario][dataset][network] == expected, network


def test_the_tables_are_all_there_is_and_counts_are_whole():
    assert {(s, d) for s, datasets in UNLEARNING.items() for d in datasets} == set(TABLES)
    for scenario, datasets in UNLEARNING.items():
        for dataset, networks in datasets.items():
            for network, recipes in networks.items():
                for label, fields in recipes.items():
                    whole = [name for name in fields if not name.endswith("lr")]
                    assert all(type(fields[name]) is int for name in whole), (scenario, dataset, network, label)


@pytest.mark.parametrize("network", ["resnet50", "vit"])
def test_on_imagenet_unlearning_crops_as_pretraining_does(network):
    crop = pretraining("full", "imagenet", network).crop
    recipes = unlearning("full", "class", "imagenet", network)
    assert {fields["crop"] for label, fields in recipes.items() if label != "Retrain"} == {crop}
    assert recipes["Retrain"]["pretraining"].crop == crop


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
    with pytest.raises(rs.InputError, match="no random forgetting of vit on imagenet, only cifar10 with resnet18"):
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
    assert unlearning_of("HD", "tiny", "class", "any", "any") == unlearning("tiny", "class", "any", "any")["HD"]
