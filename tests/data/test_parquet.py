"""parquet: the hub's layouts, columns by type, pixels in place, memory or disk, and refusals."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from residua.data import parquet
from residua.data.split import MemoryImages, Split
from residua.errors import InputError

REAL = Path(__file__).resolve().parents[2].parent / "shared/data/cifar10"
COLOUR = np.random.default_rng(4).integers(0, 256, (20, 6, 8, 3), dtype=np.uint8)
GREY = np.random.default_rng(5).integers(0, 256, (20, 6, 8), dtype=np.uint8)
LABELS = [i % 3 for i in range(20)]


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def table(images: Any, labels: Any = LABELS, **extra: Any) -> pa.Table:
    encoded = [image if image is None or isinstance(image, bytes) else png(image) for image in images]
    structs = pa.array([None if e is None else {"bytes": e, "path": "x.png"} for e in encoded])
    return pa.table({"img": structs, "label": pa.array(labels[: len(encoded)], pa.int64()), **extra})


def write(file: Path, rows: pa.Table) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)
    return file


def both(dir: Path, train: Any = COLOUR, test: Any = COLOUR[:5]) -> Path:
    write(dir / "train.parquet", table(train))
    write(dir / "test.parquet", table(test))
    return dir


def stored(split: Split) -> MemoryImages:
    assert isinstance(split.images, MemoryImages)
    return split.images


def test_pixels_labels_and_normalisation(tmp_path: Path) -> None:
    data = parquet(both(tmp_path / "birds"))
    assert (data.name, data.classes, data.class_names, data.shape) == ("birds", 3, (), (3, 6, 8))
    np.testing.assert_array_equal(stored(data.train).pixels.numpy(), COLOUR)
    assert data.train.labels.tolist() == LABELS
    mean, std = (COLOUR / 255).mean((0, 1, 2)), (COLOUR / 255).std((0, 1, 2))
    x, _ = next(iter(data.test.batches(5)))
    expected = ((COLOUR[:5] / 255 - mean) / std).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(x.numpy(), expected, atol=2e-6)
    assert parquet(str(tmp_path / "birds"), name="robins").name == "robins"


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"], "test-00000-of-00001.parquet"),
        (["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"], "data/validation.parquet"),
        (["plain_text/train/0000.parquet", "plain_text/train/0001.parquet"], "plain_text/test/0000.parquet"),
        (["plain_text/train-0.parquet", "plain_text/train-1.parquet"], "plain_text/val.parquet"),
        (["train/0000.parquet", "train/0001.parquet"], "valid/0000.parquet"),
    ],
)
def test_layouts_and_shards_in_order(tmp_path: Path, train: list[str], test: str) -> None:
    write(tmp_path / train[1], table(COLOUR[12:], LABELS[12:]))
    write(tmp_path / train[0], table(COLOUR[:12]))
    write(tmp_path / test, table(COLOUR[:4]))
    write(tmp_path / "extra-00000-of-00009.parquet", table(COLOUR[:1]))
    data = parquet(tmp_path)
    np.testing.assert_array_equal(stored(data.train).pixels.numpy(), COLOUR)
    assert data.train.labels.tolist() == LABELS
    assert len(data.test) == 4


def test_test_comes_before_validation(tmp_path: Path) -> None:
    write(both(tmp_path) / "validation.parquet", table(COLOUR))
    assert len(parquet(tmp_path).test) == 5


def test_many_batches_and_row_groups_keep_their_order(tmp_path: Path) -> None:
    pixels = np.arange(1500, dtype=np.uint16).view(np.uint8).reshape(1500, 1, 2)
    pq.write_table(table(pixels, [0, 1] * 750), tmp_path / "train.parquet", row_group_size=333)
    write(tmp_path / "test.parquet", table(pixels[:2]))
    data = parquet(tmp_path)
    np.testing.assert_array_equal(stored(data.train).pixels.numpy()[..., 0], pixels)


def test_beyond_the_budget_pixels_go_to_disk_and_batches_are_the_same(tmp_path: Path) -> None:
    both(tmp_path)
    need = 25 * 6 * 8 * 3
    memory, disk = parquet(tmp_path, budget=need), parquet(tmp_path, budget=need - 1)
    assert stored(memory.train).resident
    assert stored(memory.test).resident
    assert not stored(disk.train).resident
    assert not stored(disk.test).resident
    assert (memory.train.mean, memory.train.std) == (disk.train.mean, disk.train.std)
    for left, right in ((memory.train, disk.train), (memory.test, disk.test)):
        assert left.digest() == right.digest()
        torch.manual_seed(0)
        first = [batch for batch, _ in left.batches(7, shuffle=True)]
        torch.manual_seed(0)
        second = [batch for batch, _ in right.batches(7, shuffle=True)]
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_file_on_disk_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    data = parquet(both(tmp_path / "data"), budget=0)
    assert not list((tmp_path / "tmp").iterdir())
    assert len(data.train.digest()) == 64


def test_no_room_on_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    with pytest.raises(InputError, match=r"has no room for 2880 bytes.*TMPDIR"):
        parquet(both(tmp_path), budget=0)


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    data = parquet(both(tmp_path, GREY, GREY[:5]))
    assert data.shape == (1, 6, 8)
    np.testing.assert_array_equal(stored(data.train).pixels.numpy()[..., 0], GREY)


@pytest.mark.parametrize("where", ["train", "test"])
def test_one_colour_image_makes_all_rgb(tmp_path: Path, where: str) -> None:
    mixed: list[Any] = [*GREY[:18], COLOUR[18], GREY[19]]
    data = parquet(both(tmp_path, **({"train": GREY, "test": GREY[:5]} | {where: mixed})))
    images = stored(getattr(data, where)).pixels.numpy()
    assert data.shape == (3, 6, 8)
    np.testing.assert_array_equal(images[18], COLOUR[18])
    np.testing.assert_array_equal(images[19], np.repeat(GREY[19][..., None], 3, 2))


def test_other_modes_become_rgb(tmp_path: Path) -> None:
    palette = Image.fromarray(GREY[0] // 128).convert("P")
    palette.putpalette([10, 20, 30, 200, 210, 220])
    buffer = io.BytesIO()
    palette.save(buffer, "PNG", transparency=b"\x80\xff")
    alpha = np.dstack([COLOUR[1], GREY[1]])
    data = parquet(both(tmp_path, [buffer.getvalue(), png(alpha), *COLOUR[2:]]))
    images = stored(data.train).pixels.numpy()
    expected = np.where(GREY[0][..., None] < 128, [10, 20, 30], [200, 210, 220])
    np.testing.assert_array_equal(images[0], expected)
    np.testing.assert_array_equal(images[1], COLOUR[1])


def test_size_fits_images_of_different_sizes(tmp_path: Path) -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = (255, 0, 0)  # the middle third is what a centre crop keeps
    tall = np.zeros((40, 20, 3), np.uint8)
    tall[10:30] = (0, 0, 255)
    same = np.full((5, 5, 3), 7, np.uint8)
    both(tmp_path, [same, wide, tall], [same])
    data = parquet(tmp_path, size=5)
    assert data.shape == (3, 5, 5)
    images = stored(data.train).pixels.numpy()
    np.testing.assert_array_equal(images[0], same)
    assert images[1][:, 1:4].reshape(-1, 3).tolist() == [[255, 0, 0]] * 15
    assert images[2][1:4].reshape(-1, 3).tolist() == [[0, 0, 255]] * 15
    with pytest.raises(InputError, match=r"row 1 of .*train.parquet is 30 x 10 pixels.*--size 224"):
        parquet(tmp_path)


def test_size_keeps_small_squares_and_enlarges_them_per_batch(tmp_path: Path) -> None:
    data = parquet(both(tmp_path, COLOUR[:, :, :6], COLOUR[:5, :, :6]), size=12)
    assert (stored(data.train).shape, data.shape) == ((3, 6, 6), (3, 12, 12))
    assert next(iter(data.train.batches(2)))[0].shape == (2, 3, 12, 12)
    larger = parquet(tmp_path, size=4)
    assert stored(larger.train).shape == larger.shape == (3, 4, 4)


def with_classes(rows: pa.Table, **names: list[str]) -> pa.Table:
    features = {column: {"names": given, "_type": "ClassLabel"} for column, given in names.items()}
    info = {"info": {"features": {"img": {"_type": "Image"}, **features}}}
    return rows.replace_schema_metadata({"huggingface": json.dumps(info)})


def test_class_names_come_from_the_metadata_or_the_caller(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", with_classes(table(COLOUR), label=["a", "b", "c", "d"]))
    write(tmp_path / "test.parquet", table(COLOUR))
    data = parquet(tmp_path)
    assert (data.class_names, data.classes) == (("a", "b", "c", "d"), 4)
    assert parquet(tmp_path, class_names=["x", "y", "z"]).class_names == ("x", "y", "z")


def test_two_labels_must_be_chosen_between(tmp_path: Path) -> None:
    coarse = pa.array([i % 2 for i in range(20)])
    rows = table(COLOUR, coarse_label=coarse).rename_columns(["img", "fine_label", "coarse_label"])
    rows = with_classes(rows, fine_label=["a", "b", "c"], coarse_label=["d", "e"])
    write(tmp_path / "train.parquet", rows)
    write(tmp_path / "test.parquet", rows)
    with pytest.raises(InputError, match='fine_label, coarse_label; name one, such as label="fine_label"'):
        parquet(tmp_path)
    data = parquet(tmp_path, label="coarse_label")
    assert (data.class_names, data.train.labels.tolist()) == (("d", "e"), coarse.to_pylist())


def test_an_index_column_gives_way_to_one_marked_as_classes(tmp_path: Path) -> None:
    rows = with_classes(table(COLOUR, id=pa.array(range(20))), label=["a", "b", "c"])
    write(tmp_path / "train.parquet", rows)
    write(tmp_path / "test.parquet", rows)
    assert parquet(tmp_path).train.labels.tolist() == LABELS


def test_plain_bytes_are_images_too(tmp_path: Path) -> None:
    rows = pa.table({"png": [png(image) for image in COLOUR], "y": pa.array(LABELS, pa.int32())})
    write(tmp_path / "train.parquet", rows)
    write(tmp_path / "test.parquet", rows)
    np.testing.assert_array_equal(stored(parquet(tmp_path).train).pixels.numpy(), COLOUR)


@pytest.mark.parametrize(
    ("train", "options", "message"),
    [
        (table([*COLOUR[:4], b"not an image"]), {}, "row 4 of .*train.parquet cannot be decoded"),
        (table([*COLOUR[:4], png(COLOUR[4])[:-30]]), {}, "row 4 of .*train.parquet cannot be decoded"),
        (table([*COLOUR[:4], None]), {}, "row 4 of .*train.parquet has no image bytes"),
        (table([png(GREY[0].astype(np.uint16) * 99), *COLOUR[1:]]), {}, "row 0 of .*mode I;16.*expected 8 bits"),
        (table(COLOUR[:3], [0, None, 1]), {}, "row 1 of .*train.parquet has no label"),
        (table(COLOUR[:3], [0, 1, -1]), {}, "row 2 of .*train.parquet has label -1"),
        (table(COLOUR)[:0], {}, "train.parquet holds no rows"),
        (table(COLOUR[:2], [0, 1]), {}, "test.parquet, expected 0 to 1"),
        (table(COLOUR), {"class_names": ["a", "b"]}, "train.parquet, expected 0 to 1"),
        (
            table(COLOUR),
            {"label": "lable"},
            "train.parquet has no column 'lable' of whole numbers; give label= one of label",
        ),
        (table(COLOUR), {"image": "label"}, "train.parquet has no column 'label' of encoded images"),
        (table(COLOUR), {"size": 0}, "size is 0"),
        (table(COLOUR).drop_columns("label"), {}, "train.parquet has the columns img, expected .* the label"),
        (table(COLOUR).drop_columns("img"), {}, "train.parquet has the columns label, expected .* the image"),
        (table(COLOUR, thumb=table(COLOUR)["img"]), {}, 'the image, img, thumb; name one, such as image="img"'),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, train: pa.Table, options: dict[str, Any], message: str) -> None:
    write(both(tmp_path) / "train.parquet", train)
    with pytest.raises(InputError, match=message):
        parquet(tmp_path, **options)


def test_a_test_file_without_the_columns_is_named(tmp_path: Path) -> None:
    write(both(tmp_path) / "test.parquet", table(COLOUR).rename_columns(["img", "y"]))
    with pytest.raises(InputError, match=r"test.parquet has no column 'label'"):
        parquet(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "text", "pages"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    file = both(tmp_path) / "train.parquet"
    data = file.read_bytes()
    file.write_bytes(
        {"cut": data[:-9], "text": b"version https://git-lfs", "pages": data[:4] + bytes(400) + data[404:]}[damage]
    )
    with pytest.raises(InputError, match=r"train.parquet cannot be (read as parquet|decoded)"):
        parquet(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no train"),
        (["test.parquet"], "has no train"),
        (["train.parquet"], "no test.*or validation"),
        (["trainval.parquet", "test.parquet"], "has no train"),
        (["train-00000-of-00002.parquet", "test.parquet"], "holds 1 parquet files of train, expected 2"),
        (["fine/train.parquet", "coarse/train.parquet"], "several configurations, coarse, fine"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        write(tmp_path / name, table(COLOUR))
    with pytest.raises(InputError, match=message) as caught:
        parquet(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("module", ["pyarrow.parquet", "PIL.Image"])
def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    both(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"which is missing; install residua\[data\]"):
        parquet(tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="the JPEG copy of CIFAR-10 is not there")
def test_real_cifar10(tmp_path: Path) -> None:
    rows = pq.read_table(REAL / "test.parquet").slice(0, 2000)
    write(tmp_path / "train.parquet", rows)
    write(tmp_path / "test.parquet", rows.slice(0, 10))
    data = parquet(tmp_path)
    assert (data.shape, data.classes) == ((3, 32, 32), 10)
    assert data.train.labels.tolist() == rows["label"].to_pylist()
    for i in (0, 777, 1999):
        with Image.open(io.BytesIO(rows["img"][i]["bytes"].as_py())) as image:
            np.testing.assert_array_equal(stored(data.train).pixels[i].numpy(), np.asarray(image))
