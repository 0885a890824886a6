from __future__ import annotations

import pytest
import torch

import residua as rs
from residua.measure._outputs import as_input, features
from residua.models.classifier import weights_digest


def test_features_are_those_of_the_blocks_and_the_last_is_pooled(net, data):
    split = data.train.subset(torch.arange(37))
    found = features(net, split, [3, 5])
    x, _ = next(iter(split.batches(37)))
    with torch.no_grad():
        torch.testing.assert_close(as_input(found[3]), net.upto(3)(x))
        torch.testing.assert_close(found[5], net.encode(x))


def test_features_beyond_the_budget_lie_on_disk_and_are_the_same_bits(net, data):
    here = features(net, data.train, [2, 5])
    there = features(net, data.train, [2, 5], budget=10)
    for block in (2, 5):
        assert torch.equal(here[block], there[block])


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
