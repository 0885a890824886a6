"""Passes are remembered, and never wrongly: whatever changes a model's function makes it another model."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import residua as rs
from residua.measure import _outputs as outputs
from residua.measure._memo import Memo, identity
from residua.measure._outputs import logits, pooled
from residua.models.foreign import draws

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def runs(monkeypatch) -> list[int]:
    """Forward passes over a split, counted as the length of a list."""
    made: list[int] = []
    real = outputs._run
    monkeypatch.setattr(outputs, "_run", lambda *words: made.append(1) or real(*words))
    return made


def test_one_pass_serves_every_measure_that_needs_outputs_or_features(net, task, runs):
    for measure in (
        rs.measure.Accuracy(), rs.measure.ClassAccuracy(), rs.measure.Membership(), rs.measure.Probe(),
        rs.measure.Recovery(), rs.measure.WhiteBoxMembership(), rs.measure.Representation(),
        rs.measure.Embedding(most=20),
    ):  # fmt: skip
        measure(net, task)
    assert len(runs) == 4  # forget, retain, test, forget_test


def test_the_information_curve_makes_the_pass_for_those_who_come_after_it(net, task, runs):
    """To the bit: what is read does not depend on who came first."""
    alone = {name: pooled(net, split) for name, split in task.splits.items()}
    said = {name: logits(net, split) for name, split in task.splits.items()}
    assert len(runs) == 4
    outputs._passes.clear()
    rs.measure.InformationCurve(steps=5, rounds=1, seed=77)(net, task)
    assert len(runs) == 8  # whole maps of everything, since test images are read too
    for name, split in task.splits.items():
        assert torch.equal(logits(net, split), said[name])
        for block, z in pooled(net, split).items():
            assert torch.equal(z, alone[name][block])
    assert len(runs) == 8


def test_what_is_handed_out_can_be_changed_without_harm(net, data):
    first = logits(net, data.test)
    kept = first.clone()
    first.zero_()
    features = pooled(net, data.test, [5])[5]
    again = features.clone()
    features.zero_()
    assert torch.equal(logits(net, data.test), kept)
    assert torch.equal(pooled(net, data.test, [5])[5], again)


def _in_place(model):
    with torch.no_grad():
        model.blocks[1][0].conv1.weight.view(-1)[3] += 0.1


def _statistics(model):
    model.blocks[0][1].running_mean[0] += 0.1


def _settings(model):
    model.blocks[0][1].eps = 0.5


def _module(model):
    model.pool = nn.Sequential(model.pool, nn.ReLU(), nn.Tanh())


def _hook(model):
    model.head.register_forward_hook(lambda module, inputs, output: output + 1)


def _patched(model):
    real = model.head.forward
    model.head.forward = lambda z: real(z) + 1


@pytest.mark.parametrize("change", [_in_place, _statistics, _settings, _module, _hook, _patched])
def test_a_model_changed_in_place_is_read_again(net, data, runs, change):
    logits(net, data.test)
    logits(net, data.test)
    assert len(runs) == 1
    change(net)
    changed = logits(net, data.test)
    assert len(runs) == 2
    outputs._passes.clear()
    assert torch.equal(changed, logits(net, data.test))


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x.mean(dim=(2, 3)) * self.factor


@pytest.mark.parametrize("factor", [2.0, torch.tensor(1.0)], ids=["a number", "a tensor outside the state"])
def test_what_a_module_holds_beside_its_weights_counts(data, factor):
    head = nn.Linear(1, 4)
    model = rs.Classifier([Scaled(factor)], head)
    before = logits(model, data.test)
    model.blocks[0].factor = factor * 3
    assert not torch.equal(logits(model, data.test), before)
    model.blocks[0].factor = factor
    assert torch.equal(logits(model, data.test), before)


def test_buffers_that_are_not_saved_count(data):
    model = rs.Classifier([Scaled(1.0)], nn.Linear(1, 4))
    model.blocks[0].register_buffer("factors", torch.ones(1), persistent=False)
    model.blocks[0].factor = 0.0
    before = identity(model)
    model.blocks[0].factors += 1
    assert identity(model) != before


def test_other_classes_with_the_same_weights_are_other_models(data):
    class Negative(Scaled):
        def forward(self, x):
            return -super().forward(x)

    head = nn.Linear(1, 4)
    one, other = (rs.Classifier([kind(1.0)], head) for kind in (Scaled, Negative))
    assert identity(one) != identity(other)
    assert not torch.equal(logits(one, data.test), logits(other, data.test))


def test_other_data_and_other_normalisation_are_read_again(net, data, runs):
    logits(net, data.test)
    logits(net, data.test.subset(torch.arange(len(data.test))))
    assert len(runs) == 1
    logits(net, data.test.subset(torch.arange(len(data.test)).flip(0)))
    logits(net, dataclasses.replace(data.test, mean=(0.1,)))
    logits(net, dataclasses.replace(data.test, std=(0.9,)))
    logits(net, data.test, precision="auto")
    assert len(runs) == 5


def test_equal_models_share_a_pass_and_modes_do_not_matter(net, data, runs):
    logits(net, data.test)
    logits(rs.clone(net), data.test)
    logits(rs.freeze(rs.clone(net)), data.test)
    logits(net.train(), data.test)
    assert len(runs) == 1


def test_how_an_adopted_network_is_drawn_again_is_no_part_of_what_it_computes(net, data, runs):
    logits(net, data.test)
    adopted = rs.clone(net)
    draws.resnet(adopted)
    assert "residua_draws" in vars(adopted.blocks[0][0])
    logits(adopted, data.test)
    assert len(runs) == 1


def test_features_too_large_to_keep_are_made_when_asked_for(net, data, monkeypatch, runs):
    expected = pooled(net, data.test)
    outputs._passes.clear()
    monkeypatch.setattr(outputs, "FEATURES", 10)
    logits(net, data.test)
    found = pooled(net, data.test, [2, 5])
    assert len(runs) == 3
    assert set(outputs._passed(net, data.test, "float32", [2]).features) == {2, 5}
    for block in (2, 5):
        assert torch.equal(found[block], expected[block])


def test_pooled_features_are_means_and_the_last_is_what_the_head_is_given(net, data):
    split = data.test.subset(torch.arange(9))
    x, _ = next(iter(split.batches(9)))
    found = pooled(net, split)
    with torch.no_grad():
        torch.testing.assert_close(found[2], net.upto(2)(x).mean(dim=(2, 3)))
        torch.testing.assert_close(net.head(found[5]), net(x))
    assert torch.equal(logits(net, split), net.head(found[5]))


def test_blocks_that_work_in_place_do_not_reach_back(data):
    with rs.seeded(0):
        model = rs.Classifier(
            [nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 5))],
            nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 4)),
        )
    found = pooled(model, data.test)
    x, _ = next(iter(data.test.batches(len(data.test))))
    with torch.no_grad():
        torch.testing.assert_close(found[1], model.upto(1)(x))
        torch.testing.assert_close(found[2], model.encode(x))
    assert (found[1] < 0).any()
    assert (found[2] < 0).any()


def test_a_memo_keeps_to_its_bounds():
    memo: Memo[str] = Memo(entries=2, size=10)
    memo.put("a", "A", 4)
    memo.put("b", "B", 4)
    assert memo.get("a") == "A"
    memo.put("c", "C", 4)  # b was used longest ago
    assert (memo.get("a"), memo.get("b"), memo.get("c")) == ("A", None, "C")
    memo.put("d", "D", 9)
    assert (len(memo), memo.get("d")) == (1, "D")
    memo.put("e", "E", 11)
    memo.put(None, "F", 1)
    assert (len(memo), memo.get("e"), memo.get(None)) == (1, None, None)
