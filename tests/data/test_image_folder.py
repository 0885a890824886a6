"""image_folder: lazily from disk, the same with any number of workers, broken files by name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import residua as rs
from residua.data import from_files, image_folder
from residua.data.checks import content
from residua.data.images import box_of, decode, pixels
from residua.data.parsing import open_dataset, with_settings
from residua.data.split import Augmentation, Part, one_part
from residua.data.task import forget_classes
from residua.errors import InputError

# What Python and PyTorch say about starting processes depends on the machine, not on us.
pytestmark = [pytest.mark.filterwarnings("ignore:.*is multi-threaded, use of fork:DeprecationWarning")]

PIXELS = np.random.default_rng(6).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
PLAIN: dict[str, Any] = {"size": 8, "workers": 0, "mean": (0, 0, 0), "std": (1, 1, 1)}


def write(file: Path, pixels: np.ndarray) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)
    return file


@pytest.fixture(autouse=True)
def too_many_to_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These few stand for images that are decoded when they are asked for."""
    monkeypatch.setattr("residua.data.images.SMALL", 0)


@pytest.fixture
def dir(tmp_path: Path) -> Path:
    for i in range(12):
        write(tmp_path / "birds/train" / ("wren", "crow", "auk")[i % 3] / f"{i:02}.png", PIXELS[i])
    for i in range(3):
        write(tmp_path / "birds/val" / ("wren", "crow", "auk")[i] / "0.png", PIXELS[i])
    return tmp_path / "birds"


IN_ORDER = [2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9]  # auk, crow, wren


def test_pixels_labels_and_names(dir: Path) -> None:
    data = image_folder(str(dir), **PLAIN)
    assert (data.name, data.class_names, data.shape) == ("birds", ("auk", "crow", "wren"), (3, 8, 8))
    x, y = next(iter(data.train.batches(12)))
    np.testing.assert_allclose(x.numpy() * 255, PIXELS[IN_ORDER].transpose(0, 3, 1, 2), atol=1e-4)
    assert y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.test.labels.tolist() == [0, 1, 2]


def test_imagenet_statistics_by_default(dir: Path) -> None:
    x, _ = next(iter(image_folder(dir, size=8, workers=0).train.batches(1)))
    expected = (PIXELS[2] / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    np.testing.assert_allclose(x[0].numpy(), expected.transpose(2, 0, 1), atol=2e-6)


def test_workers_change_nothing(dir: Path) -> None:
    def run(workers: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        data = image_folder(dir, size=8, workers=workers)
        torch.manual_seed(5)
        augment = Augmentation(crop=1, flip=True)
        sizes = (5, 1)  # of one there are more batches than rooms that children fill
        batches = [x for n in sizes for x, _ in data.train.batches(n, shuffle=True, augment=augment)]
        return batches, torch.rand(3)

    (alone, after), (helped, after_too) = run(0), run(2)
    assert len(alone) == len(helped) == 3 + 12
    assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))
    assert torch.equal(after, after_too)


@pytest.mark.parametrize("workers", [0, 2])
def test_streaming_leaves_the_global_generator_alone(dir: Path, workers: int) -> None:
    images = image_folder(dir, size=8, workers=workers).train.images
    before = torch.get_rng_state()
    plan = [torch.tensor([3, 1]), torch.tensor([0])]
    batches = list(images.stream(plan, torch.device("cpu")))
    assert [tuple(batch.shape) for batch in batches] == [(2, 3, 8, 8), (1, 3, 8, 8)]
    assert batches[0].dtype == torch.uint8
    assert torch.equal(torch.get_rng_state(), before)


def test_nothing_is_streamed_for_no_batches(dir: Path) -> None:
    assert list(image_folder(dir, **PLAIN).train.images.stream([], torch.device("cpu"))) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_named_in_one_sentence(dir: Path, workers: int) -> None:
    broken = dir / "train/crow/04.png"
    broken.write_bytes(broken.read_bytes()[:60])
    data = image_folder(dir, size=8, workers=workers)
    with pytest.raises(InputError) as caught:
        list(data.train.batches(3))
    assert str(caught.value) == f"{broken} cannot be decoded as an image; replace or remove it"


def test_a_file_that_went_away_is_named(dir: Path) -> None:
    data = image_folder(dir, **PLAIN)
    (dir / "train/auk/02.png").unlink()
    with pytest.raises(InputError, match=r"02.png does not exist"):
        list(data.train.batches(12))
    with pytest.raises(InputError, match=r"02.png does not exist"):
        data.train.digest()


def test_nothing_is_decoded_before_it_is_asked_for(dir: Path) -> None:
    (dir / "train/crow/04.png").write_bytes(b"broken")
    data = image_folder(dir, **PLAIN)
    x, _ = next(iter(data.train.subset(torch.tensor([0, 1])).batches(2)))
    assert len(x) == 2


@pytest.mark.parametrize(("height", "width"), [(20, 60), (60, 20), (40, 40)])
def test_shorter_side_to_size_and_the_middle_kept(dir: Path, height: int, width: int) -> None:
    image = np.zeros((height, width, 3), np.uint8)
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    image[top : top + side, left : left + side] = (200, 100, 50)
    write(dir / "train/auk/00.png", image)  # before 02.png
    x, _ = next(iter(image_folder(dir, **PLAIN).train.batches(1)))
    inside = x[0, :, 1:-1, 1:-1].mul(255).round()
    assert torch.equal(inside, torch.tensor([200.0, 100.0, 50.0])[:, None, None].expand_as(inside))


def test_grey_palette_and_transparent_images_become_rgb(dir: Path) -> None:
    grey = write(dir / "train/auk/00.png", PIXELS[0, :, :, 0])
    write(dir / "train/auk/01.png", np.dstack([PIXELS[1], PIXELS[0, :, :, 0]]))
    assert grey.exists()
    x, _ = next(iter(image_folder(dir, **PLAIN).train.batches(2)))
    np.testing.assert_allclose(x[0].numpy() * 255, np.stack([PIXELS[0, :, :, 0]] * 3), atol=1e-4)
    np.testing.assert_allclose(x[1].numpy() * 255, PIXELS[1].transpose(2, 0, 1), atol=1e-4)


def test_which_files_count(dir: Path) -> None:
    write(dir / "train/auk/images/deep.JPEG", PIXELS[0])  # as in Tiny ImageNet
    write(dir / "train/auk/web.webp", PIXELS[0])
    write(dir / "train/auk/._resource.png", PIXELS[0])
    write(dir / "train/.thumbnails/a.png", PIXELS[0])
    (dir / "train/auk/notes.txt").write_text("no image")
    data = image_folder(dir, **PLAIN)
    assert data.train.counts() == [6, 4, 4]
    assert data.classes == 3


def test_digests_see_copies_across_splits(dir: Path) -> None:
    data = image_folder(dir, **PLAIN)
    task = forget_classes(data, 2)
    assert task.manifest()["duplicates"] == {"forget/retain": 0, "forget/test": 1, "retain/test": 2}
    assert data.train.images.digests is data.train.images.digests


def test_a_test_folder_without_classes_gives_way_to_val(dir: Path) -> None:
    write(dir / "test/ILSVRC_0001.png", PIXELS[0])
    assert len(image_folder(dir, **PLAIN).test) == 3
    write(dir / "test/auk/0.png", PIXELS[0])
    assert len(image_folder(dir, **PLAIN).test) == 1


def test_a_class_may_be_missing_from_test(dir: Path) -> None:
    (dir / "val/crow/0.png").unlink()
    (dir / "val/crow").rmdir()
    assert image_folder(dir, **PLAIN).test.counts() == [1, 0, 1]


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        ("val/emu/0.png", {}, "val/emu is a class that .*train does not have"),
        ("train/emu/notes.txt", {}, "train/emu holds no images"),
        (None, {"size": 0}, "size is 0"),
        (None, {"workers": -1}, "workers is -1"),
        (None, {"mean": (0.5,)}, "mean is"),
        (None, {"std": (1, 1, 0)}, "std is"),
    ],
)
def test_bad_folders_are_refused(dir: Path, make: str | None, options: dict[str, Any], message: str) -> None:
    if make:
        (dir / make).parent.mkdir()
        (dir / make).touch()
    with pytest.raises(InputError, match=message):
        image_folder(dir, **options)


def test_missing_halves_are_named(dir: Path) -> None:
    (dir / "val").rename(dir / "held-out")
    with pytest.raises(InputError, match="has no test, val or validation"):
        image_folder(dir)
    (dir / "held-out").rename(dir / "val")
    (dir / "train").rename(dir / "training")
    with pytest.raises(InputError, match="birds/train is not there"):
        image_folder(dir)
    write(dir / "train/loose.png", PIXELS[0])
    with pytest.raises(InputError, match="birds/train has no folders"):
        image_folder(dir)


def test_kept_digests_are_trusted_until_files_are_to_be_read_again(dir: Path, monkeypatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(from_files, "FEWEST", 2)
    monkeypatch.setattr(from_files, "content", lambda path: read.append(path) or content(path))
    spec = f"image-folder:{dir}?size=8"
    first = open_dataset(spec).train.digest()
    assert len(read) == 12
    assert open_dataset(spec).train.digest() == first
    assert len(read) == 12
    assert open_dataset(with_settings(spec, rehash=True)).train.digest() == first
    assert len(read) == 24


def jpeg(width: int, height: int) -> bytes:
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    place = io.BytesIO()
    Image.fromarray(np.stack([x, y, 0 * x], axis=2).astype(np.uint8)).save(place, "JPEG", quality=95)
    return place.getvalue()


def test_a_window_shows_its_part_of_the_image_and_a_draft_of_it_nearly_the_same():
    data, window = jpeg(640, 480), (0.2, 0.5, 0.75, 0.25, 0.9)
    left, top, right, bottom = box_of(window, 640, 480)
    assert (right - left) * (bottom - top) == pytest.approx((0.08 + 0.92 * 0.2) * 640 * 480)
    whole, drafted = decode(data, "x"), decode(data, "x", (32, window))
    assert drafted.size[0] < whole.size[0]
    shown = pixels(whole, 3, 32, window)
    assert shown.shape == (32, 32, 3)
    assert shown[16, :, 0].astype(int).mean() == pytest.approx((left + right) / 2 / 640 * 255, abs=3)
    assert shown[:, 16, 1].astype(int).mean() == pytest.approx((top + bottom) / 2 / 480 * 255, abs=3)
    assert np.abs(pixels(drafted, 3, 32, window).astype(int) - shown).max() <= 6
    assert np.array_equal(pixels(whole, 3, 32, (*window[:4], 0.1)), shown[:, ::-1])


def test_trainings_cut_files_at_decoding_and_evaluations_show_the_middle(tmp_path):
    for half in ("train", "test"):
        for label in ("a", "b"):
            place = tmp_path / half / label
            place.mkdir(parents=True)
            for i in range(4):
                (place / f"{i}.jpg").write_bytes(jpeg(90, 70))
    split = rs.data.image_folder(tmp_path, size=32).train
    plain = [x for x, _ in split.batches(4)]
    assert all(torch.equal(plain[0][0], image) for x in plain for image in x)
    augment = Augmentation(crop=4, flip=True)
    with rs.seeded(0):
        first = torch.cat([x for x, _ in split.batches(4, augment=augment)])
    with rs.seeded(0):
        second = torch.cat([x for x, _ in split.batches(4, augment=augment)])
    assert torch.equal(first, second)
    assert len({image.sum().item() for image in first}) == len(split)  # each is cut otherwise
    with rs.seeded(0), one_part(Part(1, 2)):
        part = torch.cat([x for x, _ in split.batches(4, augment=augment)])
    assert torch.equal(part, torch.cat([first[1:4:2], first[5:8:2]]))  # processes that share a batch share its windows
