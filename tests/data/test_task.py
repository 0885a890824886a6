from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import residua as rs
from conftest import make_arrays

DATA = rs.data.arrays(*make_arrays(60, seed=0), *make_arrays(20, seed=1), name="levels")


def check_partition(task: rs.ForgetTask) -> None:
    forget, retain = set(task.forget.index.tolist()), set(task.retain.index.tolist())
    assert forget
    assert retain
    assert not forget & retain
    assert forget | retain == set(range(60))
    test, forget_test = set(task.test.index.tolist()), set(task.forget_test.index.tolist())
    assert not test & forget_test
    assert test | forget_test == set(range(20))
    assert len(task.train) == 60


@given(st.sets(st.integers(0, 3), min_size=1, max_size=3))
def test_forgetting_classes_partitions_the_data(classes):
    task = rs.forget_classes(DATA, classes)
    check_partition(task)
    assert task.scenario == "class"
    assert set(task.forgotten) == classes == set(task.forget.labels.tolist())
    assert not classes & set(task.test.labels.tolist())
    assert set(task.forget_test.labels.tolist()) == classes


@given(st.integers(1, 14), st.integers(0, 2**40))
def test_forgetting_samples_takes_as_many_of_each_class(per_class, seed):
    task = rs.forget_samples(DATA, per_class, seed=seed)
    check_partition(task)
    assert task.forget.counts() == [per_class] * 4
    assert task.scenario == "random"
    assert len(task.test) == 20


def test_samples_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = rs.forget_samples(DATA, 5, seed=3).forget.index
    torch.manual_seed(2)
    assert torch.equal(first, rs.forget_samples(DATA, 5, seed=3).forget.index)
    assert not torch.equal(first, rs.forget_samples(DATA, 5, seed=4).forget.index)


@given(st.sets(st.integers(0, 59), min_size=1, max_size=59))
def test_forgetting_indices_forgets_just_those(ids):
    task = rs.forget_indices(DATA, sorted(ids))
    check_partition(task)
    assert set(task.forget.index.tolist()) == ids


def test_indices_that_are_a_whole_class_are_a_class():
    ids = (DATA.train.labels == 1).nonzero()[:, 0]
    assert rs.forget_indices(DATA, ids).forgotten == (1,)
    assert rs.forget_indices(DATA, ids[1:]).scenario == "random"


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: rs.forget_classes(DATA, 7), "class 7 is not in levels"),
        (lambda: rs.forget_classes(DATA, []), "no class to forget"),
        (lambda: rs.forget_classes(DATA, [0, 1, 2, 3]), "all of levels"),
        (lambda: rs.forget_samples(DATA, 0), "per_class is 0"),
        (lambda: rs.forget_samples(DATA, 15), "expected 1 to 14"),
        (lambda: rs.forget_indices(DATA, []), "empty"),
        (lambda: rs.forget_indices(DATA, [60]), "60 training examples"),
        (lambda: rs.forget_indices(DATA, [-1]), "from -1"),
        (lambda: rs.forget_indices(DATA, [0.5]), "whole numbers"),
        (lambda: rs.forget_indices(DATA, list(range(60))), "all of levels"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(ask, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        ask()


def test_a_class_without_images_is_refused():
    images, labels = make_arrays(20)
    sparse = rs.data.arrays(images, labels, images, labels, classes=6)
    with pytest.raises(rs.InputError, match="no image of it"):
        rs.forget_classes(sparse, 5)


def test_a_forget_set_of_other_images_has_no_manifest():
    """Positions in one data set would be taken for positions in the other."""
    other = rs.data.arrays(*make_arrays(60, seed=2), *make_arrays(20, seed=3), name="others")
    mixed = dataclasses.replace(rs.forget_classes(DATA, 1), forget=rs.forget_classes(other, 1).forget)
    with pytest.raises(rs.InputError, match="of different images; take both from one data set"):
        mixed.manifest()


def test_planted_duplicates_are_found_on_each_pair_of_sides():
    images, labels = make_arrays(40, seed=0)
    test_images, test_labels = make_arrays(12, seed=1)
    images[5] = images[2]  # class 1 and class 2
    test_images[0] = images[6]  # class 2, forgotten
    test_images[3] = images[0]  # class 0, retained
    task = rs.forget_classes(rs.data.arrays(images, labels, test_images, test_labels), 2)
    assert {name: list(pairs) for name, pairs in task.duplicates().items()} == {
        "forget/retain": [(2, 5)],
        "forget/test": [(6, 0)],
        "retain/test": [(0, 3)],
    }
    assert task.manifest()["duplicates"] == {"forget/retain": 1, "forget/test": 1, "retain/test": 1}


def test_the_manifest_changes_with_one_pixel_or_label():
    images, labels = make_arrays(40, seed=0)
    other_images, other_labels = images.copy(), labels.copy()
    other_images[0, 0, 0, 0] ^= 1
    other_labels[0] = 1
    mean, std = [0.5], [0.5]
    hashes = {
        rs.forget_classes(rs.data.arrays(i, y, images, labels, mean=mean, std=std), 2).manifest()["sha256"]
        for i, y in [(images, labels), (other_images, labels), (images, other_labels), (np.array(images), labels)]
    }
    assert len(hashes) == 3
