from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.data.split import MemoryImages


def test_batches_are_normalised_and_in_order(data):
    x = torch.cat([x for x, _ in data.train.batches(50)])
    pixels = data.train.images.pixels.permute(0, 3, 1, 2).double() / 255
    expected = (pixels - data.train.mean[0]) / data.train.std[0]
    assert x.shape == (240, 1, 8, 8)
    torch.testing.assert_close(x.double(), expected, atol=1e-5, rtol=0)
    assert torch.equal(torch.cat([y for _, y in data.train.batches(50)]), data.train.labels)
    assert abs(float(x.mean())) < 1e-4
    assert abs(float(x.std()) - 1) < 1e-2


def test_shuffle_shows_every_example_once_and_in_a_fresh_order(data):
    batches = data.train.relabel(torch.arange(240) % 4).batches(64, shuffle=True)
    with rs.seeded(0):
        first = torch.cat([x for x, _ in batches])
        second = torch.cat([x for x, _ in batches])
    assert not torch.equal(first, second)
    assert torch.equal(first.flatten(1).sum(1).sort().values, second.flatten(1).sum(1).sort().values)


@pytest.mark.parametrize(
    ("n", "batch", "drop", "sizes"), [(10, 4, False, [4, 4, 2]), (10, 4, True, [4, 4]), (3, 4, True, [3])]
)
def test_batch_sizes(data, n, batch, drop, sizes):
    batches = data.train.subset(torch.arange(n)).batches(batch, drop_last=drop)
    assert [len(y) for _, y in batches] == sizes
    assert len(batches) == len(sizes)


def test_an_empty_split_gives_no_batches(data):
    empty = data.train.subset(torch.arange(0))
    assert list(empty.batches(4)) == []
    assert len(empty.batches(4, drop_last=True)) == 0


def test_augmentation_equals_a_loop_over_images_with_the_same_draws():
    images = torch.randint(0, 256, (16, 3, 6, 5), dtype=torch.uint8)
    with rs.seeded(3):
        found = rs.Augmentation(crop=2, flip=True)(images)
    with rs.seeded(3):
        top, left = torch.randint(0, 5, (16, 1)), torch.randint(0, 5, (16, 1))
        mirrored = torch.rand(16, 1) < 0.5
    for i, image in enumerate(images):
        framed = np.pad(image.numpy(), ((0, 0), (2, 2), (2, 2)))
        y, x = int(top[i]), int(left[i])
        window = framed[:, y : y + 6, x : x + 5]
        assert np.array_equal(found[i].numpy(), window[:, :, ::-1] if mirrored[i] else window)
    assert len({(int(a), int(b)) for a, b in zip(top, left, strict=True)}) > 4
    assert 0 < int(mirrored.sum()) < 16


def test_no_augmentation_is_the_identity():
    images = torch.randint(0, 256, (4, 1, 6, 5), dtype=torch.uint8)
    assert torch.equal(rs.Augmentation()(images), images)


def test_images_are_resized_per_batch(data):
    split = rs.Split(data.train.images, torch.arange(4), torch.zeros(4, dtype=torch.int64), 4, (0.5,), (0.5,), size=16)
    x, _ = next(iter(split.batches(4)))
    assert x.shape == (4, 1, 16, 16)
    assert split.shape == (1, 16, 16)


def test_images_mapped_from_a_file_give_the_same_batches(tmp_path, data):
    path = tmp_path / "pixels"
    data.train.images.pixels.numpy().tofile(path)
    mapped = torch.from_file(str(path), size=240 * 64, dtype=torch.uint8).view(240, 8, 8, 1)
    on_disk = rs.Split(
        MemoryImages(mapped, resident=False), data.train.index, data.train.labels, 4, data.train.mean, data.train.std
    )
    for (a, _), (b, _) in zip(on_disk.batches(100), data.train.batches(100), strict=True):
        assert torch.equal(a, b)


def test_labels_out_of_range_are_refused(data):
    with pytest.raises(rs.InputError, match="labels run from 0 to 9, expected 0 to 3"):
        data.train.relabel(torch.arange(240) % 10)


def test_more_labels_than_images_are_refused(data):
    with pytest.raises(rs.InputError, match="240 images but 3 labels"):
        data.train.relabel(torch.zeros(3))


def test_splits_of_different_images_are_not_joined(data):
    with pytest.raises(rs.InputError, match="different images"):
        data.train.joined(data.test)


def test_the_digest_follows_images_labels_and_order(data):
    train = data.train
    digests = {
        train.digest(),
        train.subset(torch.arange(239)).digest(),
        train.subset(torch.arange(240).flip(0)).digest(),
        train.relabel((train.labels + 1) % 4).digest(),
    }
    assert len(digests) == 4
    assert train.digest() == train.subset(torch.arange(240)).digest()
