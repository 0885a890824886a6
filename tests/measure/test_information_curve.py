from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.classifier import weights_digest
from residua.measure import information_curve
from residua.measure.information_curve import InformationCurve, Stratified, asked, passes

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = InformationCurve(epochs=1, batch=32)


@pytest.fixture
def known(task, net):
    """A model that knows the levels, and one that knows nothing."""
    with rs.seeded(0):
        trained = rs.Pretraining(epochs=4, batch=32, lr=0.05, crop=0)(net, task.train)
    return trained, net


def test_a_trained_encoder_knows_what_was_trained(known, task):
    curve = QUICK(known[0], task)
    assert curve.blocks == [4, 5]
    assert curve.ceiling == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert curve.information[5] > 0.5 * curve.ceiling
    assert all(value <= curve.ceiling for value in curve.information.values())
    assert curve.accuracy[5] > 0.85


def test_terms_are_kept_for_every_sample_and_average_to_the_curve(net, task):
    curve = InformationCurve(epochs=1, batch=32, restarts=2)(net, task)
    assert curve.arrays["terms"].shape == (2, 2, 240)
    for block in (4, 5):
        assert curve.residue(block).mean() == pytest.approx(curve.information[block], abs=1e-5)
        by_label = curve.residue_by_label(block)
        assert 0.75 * by_label[0] + 0.25 * by_label[1] == pytest.approx(curve.information[block], abs=1e-5)
    assert np.array_equal(np.bincount(curve.labels), [180, 60])
    assert set(curve.arrays["index"][curve.labels == 1]) == set(task.forget.index.tolist())


def test_shuffled_labels_are_not_known(data, known):
    random = rs.forget_indices(data, torch.randperm(240, generator=torch.Generator().manual_seed(0))[:60])
    scrambled = rs.ForgetTask(
        "levels", "class", (), random.forget, random.retain, random.test, random.forget_test
    )
    curve = QUICK(known[0], scrambled)
    assert all(low <= 0.02 for low, _ in curve.intervals.values())
    assert all(abs(value) < 0.1 for value in curve.information.values())


def test_the_papers_reading_of_the_fitting_data_memorises(known, data):
    random = rs.forget_indices(data, torch.randperm(240, generator=torch.Generator().manual_seed(0))[:60])
    scrambled = rs.ForgetTask(
        "levels", "class", (), random.forget, random.retain, random.test, random.forget_test
    )
    settings = {"epochs": 30, "batch": 32, "blocks": (1,), "lr": 3e-3}
    read_again = InformationCurve(protocol="paper", **settings)(known[0], scrambled)
    unseen = InformationCurve(**settings)(known[0], scrambled)
    assert read_again.information[1] > unseen.information[1] + 0.05


def test_random_forgetting_asks_for_the_class_on_the_forget_set(data, known):
    task = rs.forget_samples(data, per_class=30, seed=0)
    curve = QUICK(known[0], task)
    assert len(curve.labels) == 120
    assert curve.ceiling == pytest.approx(np.log(4))
    assert curve.information[5] > 0.8


def test_the_model_and_the_generator_are_untouched(net, task):
    before, state = weights_digest(net), torch.get_rng_state()
    QUICK(net, task)
    assert weights_digest(net) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.requires_grad for p in net.parameters())


def test_an_equal_encoder_gives_the_same_curve_without_fitting(net, task, monkeypatch):
    first = QUICK(net, task)
    other = rs.clone(net).to(memory_format=torch.channels_last)  # as training leaves it
    with torch.no_grad():
        other.head.weight.add_(1.0)
    monkeypatch.setattr(information_curve, "descend", None)
    assert QUICK(other, task) is first
    information_curve._curves.clear()
    monkeypatch.undo()
    other = other.to(memory_format=torch.contiguous_format)
    assert np.array_equal(QUICK(other, task).arrays["terms"], first.arrays["terms"])


def test_equal_weights_in_another_network_are_another_encoder(task):
    with rs.seeded(0):
        layer, head = nn.Linear(64, 6), nn.Linear(6, 4)
    made = [rs.Classifier([nn.Sequential(nn.Flatten(), layer, f)], head) for f in (nn.ReLU(), nn.Tanh())]
    first, second = (InformationCurve(last=1)(model, task) for model in made)
    assert weights_digest(made[0]) == weights_digest(made[1])
    assert not np.array_equal(first.arrays["terms"], second.arrays["terms"])
    made[0].blocks[0][2].inplace = True  # the same function, but who could tell
    assert InformationCurve(last=1)(made[0], task) is not first


class Masked(nn.Module):
    """Multiplies by what no checkpoint holds."""

    def __init__(self, mask: torch.Tensor, how: str) -> None:
        super().__init__()
        if how == "attribute":
            self.mask = mask
        else:
            self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask


@pytest.mark.parametrize("how", ["attribute", "buffer that is not saved"])
def test_what_no_checkpoint_holds_makes_another_encoder(data, how):
    brightest = rs.forget_classes(data, 3)
    with rs.seeded(0):
        layer, head = nn.Linear(64, 6), nn.Linear(6, 4)
    seeing, blind = (
        InformationCurve(last=1)(
            rs.Classifier([nn.Sequential(nn.Flatten(), layer, Masked(mask, how))], head), brightest
        )
        for mask in (torch.ones(6), torch.zeros(6))
    )
    assert seeing.information[1] > 0.1
    assert abs(blind.information[1]) < 0.01


@pytest.mark.parametrize(
    ("ratio", "kept"), [("all", 180), ("1:2", 120), ("1:0.5", 30), ("10%", 18), ("50%", 90)]
)
def test_ratios_keep_all_of_forget_and_some_of_retain(task, ratio, kept):
    split, labels = asked(task, ratio)
    assert int(labels.sum()) == 60
    assert len(split) == 60 + kept
    assert set(split.labels[labels == 1].tolist()) == {2}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ratio": "1:9"}, "ratio '1:9' cannot be kept"),
        ({"ratio": "some"}, "ratio 'some'"),
        ({"ratio": "0%"}, "ratio '0%'"),
        ({"blocks": (6,)}, "block 6 does not exist"),
        ({"blocks": (0,)}, "block 0 does not exist"),
        ({"last": 9}, "does not exist"),
        ({"last": 0}, "last is 0, expected at least 1"),
        ({"folds": 1}, "folds is 1, expected at least 2"),
        ({"restarts": 0}, "restarts is 0"),
        ({"protocol": "guess"}, "protocol 'guess' is unknown"),
    ],
)
def test_settings_that_make_no_sense_are_refused(net, task, settings, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        InformationCurve(**{"epochs": 1} | settings)(net, task)


def test_too_few_forgotten_samples_are_refused(data, net):
    forget, retain = data.train.subset(torch.arange(2, 42, 4)), data.train.subset(torch.arange(100, 200))
    few = rs.ForgetTask("levels", "class", (2,), forget, retain, data.test, data.test)
    with pytest.raises(rs.InputError, match="only 10 samples"):
        QUICK(net, few)


def test_any_classifier_has_a_curve(data, task):
    vit = rs.networks.vit(variant="tiny", classes=4, channels=1, image=8, patch=4)
    resnet50 = rs.networks.resnet50(classes=4, channels=1, width=1)
    for model in (vit, resnet50):
        curve = InformationCurve(last=2, epochs=1, batch=64)(model, task)
        assert curve.blocks == [model.depth - 1, model.depth]


def test_batches_have_the_datas_share_of_each_label():
    labels = torch.tensor([0] * 90 + [1] * 10)
    batches = list(
        Stratified(torch.arange(100.0)[:, None], labels, torch.arange(100), 20, torch.device("cpu"))
    )
    assert [int(y.sum()) for _, y in batches] == [2] * 5
    assert sorted(torch.cat([z for z, _ in batches])[:, 0].tolist()) == list(range(100))


@pytest.mark.parametrize(("n", "times"), [(40, 3), (6_250, 3), (25_000, 2), (50_000, 1), (10**6, 1)])
def test_many_samples_are_shown_less_often(n, times):
    assert passes(3, n) == times
    assert passes(1, n) == 1
