from __future__ import annotations

import pytest

import residua as rs
from residua.training.recipes import PAPER, SMALL, TINY, WIDTH, pretraining, stem_at

# The paper's table "Training configuration for Original and Retrain", as it stands there:
# epochs, batch size, learning rate, L2 regularisation.
CIFAR_RESNET = (300, 128, 0.1, 0.0005)
CIFAR_VIT = (3, 128, 0.00002, 0.0005)
TABLE = {
    ("cifar10", "resnet18"): CIFAR_RESNET,
    ("cifar10", "resnet50"): CIFAR_RESNET,
    ("cifar10", "vit"): CIFAR_VIT,
    ("cifar100", "resnet18"): CIFAR_RESNET,
    ("cifar100", "resnet50"): CIFAR_RESNET,
    ("cifar100", "vit"): CIFAR_VIT,
    ("imagenet", "resnet50"): (90, 256, 0.1, 0.0),
    ("imagenet", "vit"): (30, 512, 0.02, 0.0),
}


@pytest.mark.parametrize(("dataset", "network"), TABLE)
def test_the_full_scale_is_the_papers_table(dataset, network):
    found = pretraining("full", dataset, network)
    assert (found.epochs, found.batch, found.lr, found.weight_decay) == TABLE[dataset, network]
    assert (found.momentum, found.schedule) == (0.9, "cosine")
    # SGD, with random crop and flip, and none of what the paper does not mention.
    assert (found.warmup, found.nesterov, found.clip) == (0.0, False, None)
    assert found.flip
    assert found.crop > 0


def test_the_paper_has_no_other_rows():
    assert PAPER.keys() == TABLE.keys()
    assert pretraining("full", "cifar10", "resnet18") == rs.Pretraining()


@pytest.mark.parametrize(
    ("dataset", "network"),
    [("imagenet", "resnet18"), ("fashion-sample", "resnet18"), ("cifar10", "nonet"), ("CIFAR10", "resnet18")],
)
def test_what_the_paper_did_not_train_is_refused(dataset, network):
    with pytest.raises(rs.InputError, match=f"no pretraining of {network} on {dataset}.*cifar10 with resnet18"):
        pretraining("full", dataset, network)


@pytest.mark.parametrize(("scale", "settings", "stem"), [("tiny", TINY, "imagenet"), ("small", SMALL, "cifar")])
def test_small_scales_have_one_recipe_for_all_data(scale, settings, stem):
    assert pretraining(scale, "anything", "resnet18") is settings
    assert WIDTH[scale] == 16
    assert stem_at(scale, 28) == stem


def test_the_full_scale_is_as_wide_as_the_papers_networks():
    assert WIDTH["full"] == 64
    assert rs.models.resnet18().architecture["width"] == 64


def test_an_unknown_scale_is_refused():
    with pytest.raises(rs.InputError, match="huge"):
        pretraining("huge", "cifar10", "resnet18")
