"""Streams of batches: in turn, side by side, contrasted."""

from __future__ import annotations

import torch

import residua as rs
from residua.training.streams import Contrasted, InTurn, likeliest, other_labels, shuffled, wrong_then_right

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
    uneven = data.train.subset(torch.cat([(data.train.labels == c).nonzero()[: 60 - 10 * c, 0] for c in range(4)]))
    with rs.seeded(0):
        first, again = (list(Contrasted(uneven, 12, CPU, 0, False, balanced=True)) for _ in range(2))
    for _, y in first[:10]:
        assert torch.bincount(y, minlength=4).tolist() == [3, 3, 3, 3]
    assert not torch.equal(first[0][0], again[0][0])
    assert sum(len(y) for _, y in first) == len(uneven) // 12 * 12


def test_wrong_labels_come_first_then_the_right_ones(task):
    stream = wrong_then_right(task, other_labels(4, task.forgotten), 8, 32, CPU, 0, False)
    with rs.seeded(0):
        seen = list(stream)
    wrong, right = ([y for _, y, first in seen if first is side] for side in (True, False))
    full, rest = divmod(len(task.forget), 8)
    assert rest, "the last batch is a smaller one"
    assert [len(y) for y in wrong] == [8] * full + [rest]
    assert set(torch.cat(wrong).tolist()) == {0, 1, 3}
    assert {len(y) for y in right} == {32}
    assert 2 not in torch.cat(right)
    assert [first for *_, first in seen] == [True] * len(wrong) + [False] * len(right)


def test_the_likeliest_label_is_one_that_is_allowed():
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, -5.0, 9.0]])
    own = torch.tensor([0, 1, 2])
    assert likeliest(logits, other_labels(3, ())[own]).tolist() == [1, 0, 0]
    assert likeliest(logits, other_labels(3, (0,))[own]).tolist() == [1, 2, 1]
