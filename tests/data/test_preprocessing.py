"""Size and normalisation are asked for, carried by checkpoints, or the data's; never ours in silence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.data import Preprocessing, open_dataset, prepare
from residua.data.parsing import split_settings, with_settings
from residua.data.preprocessing import from_checkpoint, of_split
from residua.errors import InputError


def first(data) -> torch.Tensor:
    return next(iter(data.train.batches(4)))[0]


def test_each_way_to_normalise_gives_its_own_pixels(data):
    raw = data.train.images.pixels[:4].permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(first(prepare(data, Preprocessing(normalise="none"))), raw)
    torch.testing.assert_close(first(prepare(data, Preprocessing(mean=(0.5,), std=(0.25,)))), (raw - 0.5) / 0.25)
    torch.testing.assert_close(first(prepare(data, Preprocessing(normalise="data"))), first(data))
    grey = (0.485 + 0.456 + 0.406) / 3, (0.229 + 0.224 + 0.225) / 3
    torch.testing.assert_close(first(prepare(data, Preprocessing(normalise="imagenet"))), (raw - grey[0]) / grey[1])
    assert prepare(data, Preprocessing(size=12)).shape == (1, 12, 12)


def test_what_is_asked_goes_before_what_a_checkpoint_carries(data):
    carried = from_checkpoint(of_split(data.train))
    assert carried == Preprocessing(8, data.train.mean, data.train.std)
    assert Preprocessing().over(carried) == carried
    assert Preprocessing(size=4).over(carried) == Preprocessing(4, carried.mean, carried.std)
    assert Preprocessing(normalise="none").over(carried) == Preprocessing(8, normalise="none")


@pytest.mark.parametrize(
    "carried",
    [None, "x", {}, {"shape": [1, 8, 8], "mean": [0.5], "std": [0]}, {"shape": [1, 8, 8], "mean": [], "std": [1]},
     {"shape": [1, 10**9, 8], "mean": [0.5], "std": [1]}, {"shape": [1, 8, 8], "mean": [float("nan")], "std": [1]}],
)  # fmt: skip
def test_what_a_file_says_is_taken_only_if_it_is_sound(carried):
    assert from_checkpoint(carried) is None


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [({"mean": (0.5,)}, "belong together"), ({"normalise": "cifar"}, "expected imagenet, data, none"),
     ({"mean": (0.5,), "std": (1.0,), "normalise": "none"}, "already normalise"), ({"size": 0}, "size is 0")],
)  # fmt: skip
def test_wishes_that_contradict_each_other_are_refused(wishes, sentence):
    with pytest.raises(InputError, match=sentence):
        Preprocessing(**wishes)


def test_one_word_says_it_all(tmp_path):
    words = with_settings("fashion-sample", size=14, mean="0.5", std="0.25", normalise=None, name="mine")
    assert words == "fashion-sample?size=14&mean=0.5&std=0.25&name=mine"
    assert split_settings(with_settings(words, size=7))[1]["size"] == "7"
    data = open_dataset(words)
    assert (data.name, data.shape, data.train.mean, data.test.std) == ("mine", (1, 14, 14), (0.5,), (0.25,))
    odd = tmp_path / "what?"
    assert split_settings(f"npz:{odd}") == (f"npz:{odd}", {})
    for bad in ("fashion-sample?size=x", "fashion-sample?mean=a&std=1", "fashion-sample?mean=1,2&std=1,2"):
        with pytest.raises(InputError, match="expected"):
            open_dataset(bad)


def test_a_trained_model_carries_what_it_expects_through_its_checkpoint(data, task, tmp_path):
    quick = rs.Pretraining(epochs=1, batch=64, lr=0.01, crop=0, precision="float32")
    with rs.seeded(0):
        model = quick(rs.models.resnet18(classes=4, channels=1, width=2), task.train)
        unlearned = rs.unlearn.Retrain(quick)(model, task)
    for each in (model, unlearned, rs.clone(model)):
        rs.save(each, tmp_path / "m.safetensors")
        assert from_checkpoint(rs.load(tmp_path / "m.safetensors").preprocessing) == Preprocessing(
            8, data.train.mean, data.train.std
        )


def test_labels_that_do_not_begin_at_0_are_mentioned():
    images, labels = np.zeros((4, 1, 2, 2), np.uint8), np.array([1, 2, 1, 2])
    assert "run from 1 to 2" in rs.data.arrays(images, labels, images, labels).notes[0]
    assert not rs.data.arrays(images, labels - 1, images, labels - 1).notes


def test_advice_for_floats_does_not_destroy_them():
    labels = np.array([0, 1])
    standardised = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    with pytest.raises(InputError, match="look standardised: undo that") as caught:
        rs.data.arrays(standardised, labels, standardised, labels)
    assert "multiply by 255" not in str(caught.value)
