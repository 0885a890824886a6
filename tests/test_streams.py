"""Streams of batches: in turn, side by side, contrasted."""

from __future__ import annotations

import torch

import residua as rs
from residua.streams import Contrasted, InTurn, shuffled

CPU = torch.device("cpu")


def test_in_turn_says_where_a_batch_is_from(task):
    forget, retain = (shuffled(s, 32, CPU, 0, False) for s in (task.forget, task.retain))
    both = InTurn(forget, retain)
    seen = list(both)
    assert len(seen) == len(both) == len(forget) + len(retain)
    assert [first for _, _, first in seen] == [True] * len(forget) + [False] * len(retain)
    assert all(set(y.tolist()) == {2} for _, y, first in seen if first)


def test_two_views_are_the_same_samples_cropped_apart(task):
    stream = Contrasted(task.retain, 16, CPU, crop=2, flip=True, views=2)
    with rs.seeded(0):
        batches = list(stream)
    assert len(batches) == len(stream) == len(task.retain) // 16
    for x, y in batches:
        assert len(x) == 32
        assert torch.equal(y[:16], y[16:])
        assert not torch.equal(x[:16], x[16:])
    plain = Contrasted(task.retain, 16, CPU, crop=0, flip=False, views=2)
    x, _ = next(iter(plain))
    assert torch.equal(x[:16], x[16:])


def test_balanced_batches_hold_equally_many_of_each_class(data):
    uneven = data.train.subset(
        torch.cat([(data.train.labels == c).nonzero()[: 60 - 10 * c, 0] for c in range(4)])
    )
    with rs.seeded(0):
        first, again = (list(Contrasted(uneven, 12, CPU, 0, False, balanced=True)) for _ in range(2))
    for _, y in first[:10]:
        assert torch.bincount(y, minlength=4).tolist() == [3, 3, 3, 3]
    assert not torch.equal(first[0][0], again[0][0])
    assert sum(len(y) for _, y in first) == len(uneven) // 12 * 12
