from __future__ import annotations

import dataclasses

import pytest
import torch

import residua as rs
from residua import room
from residua.measure import _outputs
from residua.measure._outputs import ENOUGH, Recomputed, features, rows, vectors
from residua.measure.information import curve
from residua.models.classifier import weights_digest
from residua.study import presets


def test_features_are_those_of_the_blocks_and_the_last_is_pooled(net, data):
    split = data.train.subset(torch.arange(37))
    found = features(net, split, [3, 5])
    x, _ = next(iter(split.batches(37)))
    with torch.no_grad():
        torch.testing.assert_close(found[3].permute(0, 3, 1, 2), net.upto(3)(x))
        torch.testing.assert_close(found[5], net.encode(x))


def test_features_beyond_the_budget_lie_on_disk_and_are_the_same_bits(net, data):
    here = features(net, data.train, [2, 5])
    there = features(net, data.train, [2, 5], memory=10)
    for block in (2, 5):
        assert torch.equal(here[block], there[block])


def test_features_that_nothing_can_hold_are_computed_again_and_are_the_same(net, data):
    net.eval()
    parts = [data.train.subset(torch.arange(90)), data.test]
    kept, again = features(net, parts, [2, 5]), features(net, parts, [2, 5], memory=20_000, disk=0)
    assert isinstance(again[2], Recomputed)
    assert torch.equal(again[5], kept[5])
    assert tuple(again[2].shape) == tuple(kept[2].shape)
    index = torch.tensor([95, 3, 89, 90, 3, 169])
    torch.testing.assert_close(again[2][index], kept[2][index])
    torch.testing.assert_close(vectors(again[2]), vectors(kept[2]))
    every = -(-len(rows(kept[2])) // ENOUGH)
    torch.testing.assert_close(rows(again[2]), rows(kept[2])[::every])


def test_every_kth_place_is_sampled_across_batches(net, data, monkeypatch):
    monkeypatch.setattr(_outputs, "ENOUGH", 1000)
    net.eval()
    kept, again = features(net, data.train, [2]), features(net, data.train, [2], memory=0, disk=0)
    every = -(-len(rows(kept[2])) // 1000)
    assert every > 7
    torch.testing.assert_close(rows(again[2]), rows(kept[2])[::every])


def test_a_curve_of_recomputed_features_is_that_of_kept_ones(net, task, monkeypatch):
    measure = rs.measure.InformationCurve(last=2, steps=4, rounds=2)
    kept = measure(net.eval(), task)
    curve._curves.clear()
    monkeypatch.setattr(room, "memory_budget", lambda: 30_000)
    monkeypatch.setattr(room, "TAKEN", 0.0)
    again = measure(net, task)
    assert again.values == pytest.approx(kept.values, abs=1e-4)


def test_vectors_without_room_are_refused_before_the_pass(net, data, monkeypatch):
    monkeypatch.setattr(_outputs, "_passed", lambda *_: pytest.fail("a pass was begun"))
    with pytest.raises(rs.InputError, match=r"no room for .* bytes of features of block 5; set TMPDIR"):
        features(net, data.train, [5], memory=0, disk=0)


def test_who_needs_some_samples_of_many_passes_over_these_alone(net, data, monkeypatch):
    some = torch.tensor([3, 100, 7])
    whole = _outputs.pooled(net, data.train, some=some)
    _outputs._passes.clear()
    monkeypatch.setattr(_outputs, "LOGITS", 0)
    monkeypatch.setattr(
        _outputs, "_run", lambda m, split, *more, run=_outputs._run: sizes.append(len(split)) or run(m, split, *more)
    )
    sizes = []
    for block, z in _outputs.pooled(net, data.train, some=some).items():
        torch.testing.assert_close(z, whole[block])
    assert sizes == [3]


def test_of_a_split_too_large_to_keep_few_passes_are_made(net, task, monkeypatch):
    """As of ImageNet: every measure of the paper's studies together passes over the retain set a few times, not nine."""
    sizes = []
    real = _outputs._run
    monkeypatch.setattr(_outputs, "_run", lambda m, split, *more: sizes.append(len(split)) or real(m, split, *more))
    monkeypatch.setattr(_outputs, "LOGITS", 0)
    monkeypatch.setattr(_outputs, "FEATURES", 0)
    curve._curves.clear()
    rs.measure.InformationCurve(last=1, family="linear")(net, task)
    for measure in presets.EVERYTHING:
        small = {"repeats": 1} if measure.label == "recovery" else {}
        dataclasses.replace(measure, **({"most": 20} if hasattr(measure, "most") else {}) | small)(net, task)
    assert sizes.count(len(task.retain)) <= 3


def test_the_model_is_left_as_it_was(net, data):
    net.train()
    before = weights_digest(net)
    features(net, data.train, [5])
    assert weights_digest(net) == before
    assert net.training


def test_tokens_of_a_vit(data):
    model = rs.models.vit(variant="tiny", classes=4, channels=1, image=8, patch=4)
    found = features(model, data.train.subset(torch.arange(3)), [11, 12])
    assert found[11].shape == (3, 5, 192)
    assert found[12].shape == (3, 192)


def test_features_that_are_no_numbers_are_refused(net, data):
    with torch.no_grad():
        net.blocks[0][0].weight.fill_(float("nan"))
    with pytest.raises(rs.InputError, match="features of block 2 hold NaN"):
        features(net, data.train, [2])


def test_parts_stand_one_after_the_other(net, data):
    some = [data.train.subset(torch.arange(5)), data.train.subset(torch.arange(100, 103))]
    found, joined = features(net, some, [2, 5]), features(net, some[0].joined(some[1]), [2, 5])
    for block in (2, 5):
        torch.testing.assert_close(found[block], joined[block])


def test_a_block_that_works_in_place_spoils_nothing(data):
    class Zero(torch.nn.Module):
        def forward(self, x):
            return x.zero_()

    model = rs.Classifier([torch.nn.Conv2d(1, 2, 3), Zero()], torch.nn.Linear(2, 4), pool=torch.nn.Flatten())
    split = data.train.subset(torch.arange(3))
    model.head = torch.nn.Linear(2 * 6 * 6, 4)
    found = features(model, split, [1, 2])
    assert found[1].any()
    assert not found[2].any()


def test_blocks_that_are_not_there_are_refused(net, data):
    with pytest.raises(rs.InputError, match="block 6 does not exist"):
        features(net, data.train, [6])
