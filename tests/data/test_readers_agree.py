"""The same images as a folder, a list, parquet, npz and a saved Hugging Face data set are the same data."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import residua as rs
from residua.data import open_dataset
from residua.errors import InputError

RNG = np.random.default_rng(0)
KEYS = {"train": 12, "test": 6}


def pictures(n: int, grey: bool) -> np.ndarray:
    return RNG.integers(0, 256, (n, 32, 32) if grey else (n, 32, 32, 3), dtype=np.uint8)


def encoded(pixels: np.ndarray, **more) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", **more)
    return buffer.getvalue()


def arrow_table(images: np.ndarray, labels: np.ndarray) -> pa.Table:
    column = pa.array(
        [{"bytes": encoded(i), "path": None} for i in images],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    features = {"label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    return pa.table({"image": column, "label": pa.array(labels)}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )


def save_to_disk(table: pa.Table, half: Path, **state) -> None:
    half.mkdir(parents=True)
    with (
        pa.OSFile(str(half / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=5)
    (half / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], **state}))


def written(place: Path, grey: bool = False, times: int = 1) -> dict[str, str]:
    """One small data set in every form, and its words."""
    data = {half: (pictures(n * times, grey), np.arange(n * times) % 3) for half, n in KEYS.items()}
    lines = ["file,class,split"]
    for half, (images, labels) in data.items():
        for i in np.argsort(labels, kind="stable"):
            file = place / "folder" / half / "abc"[labels[i]] / f"{i:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded(images[i]))
            lines.append(f"folder/{half}/{'abc'[labels[i]]}/{i:03}.png,{'abc'[labels[i]]},{half}")
        # The folder has the classes in order, so have the others.
        order = np.argsort(labels, kind="stable")
        data[half] = images[order], labels[order]
        table = arrow_table(*data[half])
        (place / "parquet").mkdir(exist_ok=True)
        pq.write_table(table, place / "parquet" / f"{half}-00000-of-00001.parquet")
        save_to_disk(table, place / "saved" / half)
    (place / "list.csv").write_text("\n".join(lines))
    np.savez(
        place / "all.npz",
        **{f"{h}_{k}": v for h, both in data.items() for k, v in zip(("images", "labels"), both, strict=True)},
    )
    return {
        "folder": f"image-folder:{place / 'folder'}", "list": f"csv:{place / 'list.csv'}",
        "parquet": f"parquet:{place / 'parquet'}", "npz": f"npz:{place / 'all.npz'}",
        "saved": f"hf-datasets:{place / 'saved'}",
    }  # fmt: skip


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("settings", ["", "?size=32", "?size=48", "?size=32&mean=0.5&std=0.25"])
def test_every_form_gives_the_same_batches(tmp_path, grey, settings):
    forms = {name: open_dataset(words + settings) for name, words in written(tmp_path, grey).items()}
    expected = forms.pop("parquet")
    side = 48 if "48" in settings else 32
    assert expected.shape == (1 if grey else 3, side, side)
    for name, data in forms.items():
        assert data.shape == expected.shape, name
        for half in ("train", "test"):
            ours, theirs = getattr(data, half), getattr(expected, half)
            assert torch.equal(ours.labels, theirs.labels), name
            assert (ours.mean, ours.std) == (theirs.mean, theirs.std), name
            assert torch.equal(next(iter(ours.batches(20)))[0], next(iter(theirs.batches(20)))[0]), name


def test_an_audit_has_the_same_numbers_on_every_form(tmp_path):
    """Not merely the same pixels: the same accuracies, terms and verdict."""
    found = {}
    words = written(tmp_path, times=6)
    with rs.seeded(0):
        models = [rs.models.resnet18(classes=3, channels=3, width=2) for _ in range(3)]
    for name in ("folder", "parquet", "npz"):
        task = rs.forget_classes(open_dataset(words[name]), 1)
        audit = rs.audit(
            original=models[0], unlearned=models[1], reference=models[2], task=task,
            curve=rs.measure.InformationCurve(epochs=1, last=1, folds=2), measures=(),
        )  # fmt: skip
        found[name] = (audit.verdict, audit.metrics, audit.idi.value)
    assert found["folder"] == found["parquet"] == found["npz"]


def test_images_of_several_sizes_need_a_size(tmp_path):
    folder = Path(written(tmp_path)["folder"].partition(":")[2])
    (folder / "train/a/99.png").write_bytes(encoded(RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)))
    with pytest.raises(InputError, match=r"99.png has 30 x 40 pixels but .* --size"):
        open_dataset(f"image-folder:{folder}")
    assert open_dataset(f"image-folder:{folder}", size=32).shape == (3, 32, 32)


def test_16_bit_images_are_refused_before_anything_is_decoded(tmp_path):
    folder = Path(written(tmp_path)["folder"].partition(":")[2])
    (folder / "train/a/000.png").write_bytes(b"broken")
    Image.fromarray(RNG.integers(0, 60_000, (32, 32), dtype=np.uint16)).save(folder / "test/c/99.png")
    for settings in ("", "?size=32"):
        with pytest.raises(InputError, match=r"99.png is a 16-bit image .*keep the originals"):
            open_dataset(f"image-folder:{folder}{settings}")


def png_of_16_bit_colour(side: int = 32) -> bytes:
    """Pillow writes none, and opens one as if it had 8 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + RNG.integers(0, 60_000, 3 * side).astype(">u2").tobytes() for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_16_bit_colour_is_not_read_as_8_bit_in_silence(tmp_path):
    words = written(tmp_path)
    folder = Path(words["folder"].partition(":")[2])
    (folder / "test/c/99.png").write_bytes(png_of_16_bit_colour())
    for settings in ("", "?size=48", "?size=16"):
        with pytest.raises(InputError, match=r"99.png is a 16-bit image \(mode RGB;16B\)"):
            open_dataset(f"image-folder:{folder}{settings}")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = pa.array([{"bytes": png_of_16_bit_colour(), "path": None}] * 4, kind)
    for half in ("train", "test"):
        table = pa.table({"image": column, "label": pa.array([0, 1, 0, 1])})
        pq.write_table(table, tmp_path / "parquet" / f"{half}-00000-of-00001.parquet")
    with pytest.raises(InputError, match="is a 16-bit image"):
        open_dataset(words["parquet"])
    (folder / "test/c/99.png").unlink()
    (folder / "test/c/99.ppm").write_bytes(b"P6 32 32 65535\n" + bytes(6 * 32 * 32))
    with pytest.raises(InputError, match=r"99.ppm is a 16-bit image"):
        open_dataset(f"image-folder:{folder}")


@pytest.mark.parametrize("odd", [0, 5])
def test_a_saved_data_set_of_several_sizes_is_brought_to_the_size_that_is_given(tmp_path, odd):
    """True if the first image is the odd one or a later one; as parquet brings it."""
    for half in ("train", "test"):
        images = list(pictures(6, False))
        images[odd] = RNG.integers(0, 256, (50, 40, 3), dtype=np.uint8)
        table = arrow_table(images, np.arange(6) % 3)
        save_to_disk(table, tmp_path / "saved" / half)
        (tmp_path / "parquet").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "parquet" / f"{half}-00000-of-00001.parquet")
    with pytest.raises(InputError, match="--size"):
        open_dataset(f"hf-datasets:{tmp_path / 'saved'}")
    saved, parquet = (
        open_dataset(f"{name}:{tmp_path / place}?size=32")
        for name, place in (("hf-datasets", "saved"), ("parquet", "parquet"))
    )
    assert saved.shape == (3, 32, 32)
    assert torch.equal(next(iter(saved.train.batches(6)))[0], next(iter(parquet.train.batches(6)))[0])


def test_a_flat_folder_is_read_by_its_list(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.png").write_bytes(encoded(pictures(1, False)[0]))
    (tmp_path / "labels.txt").write_text("".join(f"{i}.png {1 + i // 5}\n" for i in range(10)))
    data = open_dataset(f"image-folder:{tmp_path}")
    assert (len(data.train), len(data.test), data.classes) == (8, 2, 3)
    assert "every fifth of each class" in data.notes[0]
    assert "run from 1 to 2" in data.notes[1]
    (tmp_path / "labels.txt").unlink()
    for half, some in (("train", range(8)), ("val", range(8, 10))):
        (tmp_path / f"{half}.txt").write_text("".join(f"{i}.png\tx{i % 2}\n" for i in some))
    data = open_dataset(f"image-folder:{tmp_path}")
    assert (len(data.train), len(data.test), data.class_names) == (8, 2, ("x0", "x1"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "not a list of images"), ("a.png\n", "not a list of images"), ("a.png,0,dev\n", "the split 'dev'"),
     ("a.png,0,train\n", "lists no images for testing"), ("a.png,0,train\nb.png,0,test\n", "b.png|a.png")],
)  # fmt: skip
def test_a_bad_list_is_refused(tmp_path, text, sentence):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InputError, match=sentence):
        open_dataset(f"csv:{tmp_path / 'list.csv'}")


def npz(path: Path, images: np.ndarray, **more) -> str:
    labels = np.arange(len(images)) % 2
    arrays = {"x_train": images, "y_train": labels[:, None], "x_test": images, "y_test": labels[:, None]}
    np.savez(path / "d.npz", **arrays | more)
    return f"npz:{path / 'd.npz'}"


def test_floats_that_are_pixels_are_taken_without_loss(tmp_path):
    images = pictures(4, True)
    expected = open_dataset(npz(tmp_path, images)).train.images.pixels
    for same in (images / 255, (images / 255).astype(np.float32), images.astype(np.float64), images.astype(np.uint16)):
        assert torch.equal(open_dataset(npz(tmp_path, same, val_images=images)).train.images.pixels, expected)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda x: (x / 255 - 0.5) / 0.2, "looks standardised.*undo it.*--mean and --std"),
        (lambda x: x / 255 * 0.9931, "finer than 8 bits.*saved features"),
        (lambda x: x.astype(np.uint16) * 200, "in uint16, expected pixels from 0 to 255.*keep the originals"),
        (lambda x: x / np.nan, "NaN"),
        (lambda x: x.astype("U3"), "expected whole numbers from 0 to 255"),
    ],
)
def test_other_values_are_refused_with_advice_that_keeps_the_data(tmp_path, make, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        open_dataset(npz(tmp_path, make(pictures(4, True).astype(np.float64))))
    assert "multiply by 255" not in str(caught.value)


def test_an_npz_without_labels_and_a_selection_are_refused(tmp_path):
    np.savez(tmp_path / "d.npz", train_images=pictures(2, True))
    with pytest.raises(InputError, match="has no train_labels and no test_images"):
        open_dataset(f"npz:{tmp_path / 'd.npz'}")
    table = arrow_table(pictures(3, False), np.arange(3))
    save_to_disk(table, tmp_path / "saved/train", _indices_files=[{"filename": "i.arrow"}])
    save_to_disk(table, tmp_path / "saved/test")
    with pytest.raises(InputError, match="flatten_indices"):
        open_dataset(f"hf-datasets:{tmp_path / 'saved'}")
    with pytest.raises(InputError, match="save a DatasetDict with both"):
        open_dataset(f"hf-datasets:{tmp_path / 'saved/test'}")
