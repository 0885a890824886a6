"""fashion_sample: exactly these arrays, balanced, without duplicates, and the script that drew them."""

from __future__ import annotations

import hashlib
from importlib import resources

import numpy as np
import torch

from reproduction.fashion_sample import draw
from residua.data import fashion_sample
from residua.data.split import MemoryImages
from residua.data.task import forget_classes

SHA256 = "bb8a3891962f95a7fe87188d739abde88e87a6e64d20c1ed87041efd0b72f130"


def test_these_arrays() -> None:
    data = fashion_sample()
    sha = hashlib.sha256()
    for split in (data.train, data.test):
        assert isinstance(split.images, MemoryImages)
        sha.update(split.images.pixels.numpy().tobytes())
        sha.update(split.labels.numpy().astype(np.uint8).tobytes())
    assert sha.hexdigest() == SHA256


def test_balanced_named_and_normalised() -> None:
    data = fashion_sample()
    assert (data.name, data.shape, data.class_names[6]) == ("fashion-sample", (1, 28, 28), "shirt")
    assert (data.train.counts(), data.test.counts()) == ([600] * 10, [100] * 10)
    x = torch.cat([images for images, _ in data.train.batches(1000)])
    assert abs(float(x.mean())) < 1e-4
    assert abs(float(x.std()) - 1) < 1e-4
    assert fashion_sample(size=32).shape == (1, 32, 32)


def test_no_image_occurs_twice() -> None:
    data = fashion_sample()
    assert len(set(data.train.images.digests + data.test.images.digests)) == 7000
    assert set(forget_classes(data, 6).manifest()["duplicates"].values()) == {0}


def test_the_licence_is_next_to_it() -> None:
    notice = resources.files("residua.data").joinpath("embedded/LICENSE.fashion-mnist").read_text()
    assert "2017 Zalando SE" in notice
    assert "Permission is hereby granted, free of charge" in notice


def test_drawing_is_seeded_and_skips_what_was_seen() -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 2, 2), dtype=np.uint8)
    images[30:] = images[:30]  # every image twice
    labels = np.tile(np.arange(10, dtype=np.uint8), 6)
    seen: set[bytes] = {images[0].tobytes()}
    chosen = draw(images, labels, 2, np.random.RandomState(0), seen)
    again = draw(images, labels, 2, np.random.RandomState(0), {images[0].tobytes()})
    assert chosen.tolist() == again.tolist() == sorted(set(chosen.tolist()))
    assert np.bincount(labels[chosen]).tolist() == [2] * 10
    assert len({images[i].tobytes() for i in chosen}) == 20
    assert not {0, 30} & set(chosen.tolist())
