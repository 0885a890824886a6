"""Files made on purpose: each function fills a folder and returns the command that opens it.

They are small to make. What they would cost a reader that believes them is said beside each.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import residua as rs

Command = list[str]
HUGE_LABEL = 2**31 - 1


# --- checkpoints ----------------------------------------------------------------------------------


def checkpoint(path: Path) -> Command:
    return ["measure", str(path), "--network", "resnet18", "--data", "fashion-sample", "--forget", "class:6"]


def zipped_pickle(path: Path, payload: bytes) -> Path:
    """A file as `torch.save` would write it around this pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (("data.pkl", payload), ("version", b"3\n"), ("byteorder", b"little")):
            archive.writestr(f"archive/{name}", content)
    return path


def nested_encodings(depth: int) -> bytes:
    """_codecs.encode(_codecs.encode(..., 'hex'), 'hex'): 2 to the power of `depth` times the bytes."""
    body = b"c_codecs\nencode\n" * (depth + 1) + b"U\xff" + b"x" * 255
    body += b"U\x06latin1\x86R" + b"U\x03hex\x86R" * depth
    return b"\x80\x02" + body + b"."


def pickle_that_doubles(folder: Path, depth: int = 24) -> Command:
    """2 KB that ask for 16 GB."""
    return checkpoint(zipped_pickle(folder / "doubles.pt", nested_encodings(depth)))


def pickle_that_doubles_without_end(folder: Path) -> Command:
    return pickle_that_doubles(folder, 40)


def legacy_pickle_that_doubles(folder: Path) -> Command:
    """The same in the format before the zip archives."""
    head = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    (folder / "legacy.pth").write_bytes(head + nested_encodings(30) + pickle.dumps([], 2))
    return checkpoint(folder / "legacy.pth")


def pickle_with_a_bytearray(folder: Path) -> Command:
    """bytearray(2**36)."""
    number = (2**36).to_bytes(8, "little")
    payload = b"\x80\x02c__builtin__\nbytearray\n\x8a\x08" + number + b"\x85R."
    return checkpoint(zipped_pickle(folder / "zeros.pt", payload))


def pickle_that_runs(folder: Path) -> Command:
    payload = b"\x80\x02cos\nsystem\nX" + struct.pack("<I", 9) + b"touch ran" + b"\x85R."
    return checkpoint(zipped_pickle(folder / "runs.pt", payload))


def pickle_of_many_steps(folder: Path) -> Command:
    return checkpoint(zipped_pickle(folder / "steps.pt", b"\x80\x02" + b"N0" * 2_000_000 + b"N."))


def archive_on_several_disks(folder: Path) -> Command:
    """Python's zipfile raises where it is asked whether this is an archive."""
    path = zipped_pickle(folder / "disks.pt", b"\x80\x02N.")
    raw = path.read_bytes()
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 9)
    path.write_bytes(raw[:-22] + locator + raw[-22:])
    return checkpoint(path)


def safetensors_header(folder: Path) -> Command:
    """A header that claims most of 2**63 bytes."""
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    return checkpoint(folder / "x.safetensors")


# --- saved outputs and features -------------------------------------------------------------------


def audit_of(folder: Path, kind: str) -> Command:
    path = str(folder / "saved.npz")
    return ["audit", f"--{kind}", "--original", path, "--unlearned", path, "--reference", path]


def features_with_a_huge_label(folder: Path) -> Command:
    """`bincount` of 2**31 - 1: 17 GB."""
    z = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    np.savez(folder / "saved.npz", block5=z, labels=np.repeat([0, HUGE_LABEL], 40))
    return audit_of(folder, "features")


def features_of_many_classes(folder: Path) -> Command:
    """5,000 classes of 20 samples: scores of 100,000 x 5,000 for each of several critics."""
    labels = np.repeat(np.arange(5000), 20)
    z = np.zeros((len(labels), 2), np.float16)
    np.savez_compressed(folder / "saved.npz", block5=z, labels=labels)
    return audit_of(folder, "features")


def features_of_zeros(folder: Path) -> Command:
    """Zeros that unpack into a thousand times their size, three times and as float32."""
    labels = np.arange(200_000) % 2
    z = np.zeros((len(labels), 350), np.float16)
    np.savez_compressed(folder / "saved.npz", block5=z, labels=labels)
    return audit_of(folder, "features")


def outputs_with_an_unclosed_bracket(folder: Path) -> Command:
    """A header that no tokenizer finishes."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    with zipfile.ZipFile(folder / "saved.npz", "w") as archive:
        archive.writestr("forget_logits.npy", header + bytes(24))
    return audit_of(folder, "outputs")


def indices_with_an_unclosed_bracket(folder: Path) -> Command:
    text = b"{'descr': '<i8', 'fortran_order': False, 'shape': (3,"
    (folder / "ids.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(24))
    (folder / "empty.pt").touch()
    return [*checkpoint(folder / "empty.pt")[:-1], f"indices:{folder / 'ids.npy'}"]


# --- data sets ------------------------------------------------------------------------------------


def show(name: str, folder: Path) -> Command:
    return ["data", "show", "--data", f"{name}:{folder}"]


def idx(*shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)


def idx_bomb(folder: Path) -> Command:
    """5.6 MB that unpack into 5.6 GB of zeros; here as many as are quick to make."""
    count = 400_000
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", 9) as file:
        file.write(idx(count, 28, 28))
        for _ in range(count // 10_000):
            file.write(bytes(10_000 * 28 * 28))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(count) + bytes(count))
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(1, 28, 28) + bytes(28 * 28))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(1) + bytes(1))
    return show("mnist", folder)


def idx_that_never_ends(folder: Path) -> Command:
    """One image by its header, and then zeros."""
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", 9) as file:
        file.write(idx(1, 28, 28))
        for _ in range(100):
            file.write(bytes(1 << 20))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(1) + bytes(1))
    return show("mnist", folder)


def tar_bomb(folder: Path) -> Command:
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        member.size = 100_000 * 3073
        tar.addfile(member, Zeros(member.size))
    return show("cifar10", folder)


def tar_of_something_else(folder: Path) -> Command:
    """Members that are not asked for have to be unpacked too, to get past them."""
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("else")
        member.size = 300 << 20
        tar.addfile(member, Zeros(member.size))
    return show("cifar10", folder)


def tar_with_a_hole(folder: Path) -> Command:
    """A sparse member: terabytes of nothing."""
    name = b"cifar-10-batches-bin/data_batch_1.bin"
    header = bytearray(512)
    header[: len(name)] = name
    header[100:108], header[108:116], header[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    header[124:136], header[136:148], header[156:157] = b"00000000000\0", b"00000000000\0", b"S"
    header[257:265] = b"ustar  \0"
    header[483:495] = b"77777777777\0"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    (folder / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(bytes(header) + bytes(1024)))
    return show("cifar10", folder)


class Zeros(io.RawIOBase):
    """A file of this many zeros that takes no room."""

    def __init__(self, size: int) -> None:
        self.size = size

    def read(self, n: int = -1) -> bytes:
        n = self.size if n < 0 else min(n, self.size)
        self.size -= n
        return bytes(n)


def png(side: int = 4, colour: int = 7) -> bytes:
    out = io.BytesIO()
    Image.new("L", (side, side), colour).save(out, "png")
    return out.getvalue()


def large_png(side: int) -> bytes:
    """A grey image of zeros, row by row, without ever holding it."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(side + 1)) for _ in range(side)) + packer.flush()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def parquet(folder: Path, images: pa.Array, labels: pa.Array) -> Command:
    for half in ("train", "test"):
        table = pa.table({"image": images, "label": labels})
        pq.write_table(table, folder / f"{half}.parquet", compression="zstd")
    return show("parquet", folder)


def parquet_label(folder: Path, label: int) -> Command:
    return parquet(folder, pa.array([png()] * 4, pa.binary()), pa.array([0, 1, 2, label], pa.int64()))


def parquet_label_of_a_billion(folder: Path) -> Command:
    return parquet_label(folder, 10**9)


def parquet_label_of_two_to_62(folder: Path) -> Command:
    return parquet_label(folder, 2**62)


def parquet_of_many_labels(folder: Path) -> Command:
    """150 million labels in runs: kilobytes on disk, gigabytes as numbers."""
    n, part = 150_000_000, 5_000_000
    schema = pa.schema({"image": pa.binary(), "label": pa.int64()})
    for half in ("train", "test"):
        with pq.ParquetWriter(folder / f"{half}.parquet", schema) as writer:
            labels = pa.array(np.zeros(part, np.int64))
            images = pa.nulls(part, pa.binary())
            for _ in range(n // part if half == "train" else 1):
                writer.write_table(pa.table([images, labels], schema=schema))
    return show("parquet", folder)


def parquet_of_one_large_image(folder: Path, side: int = 13_000, times: int = 100) -> Command:
    """A kilobyte that becomes gigabytes of temporary files."""
    images = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(times, np.int32)), pa.array([large_png(side)], pa.binary())
    )
    return parquet(folder, images.cast(pa.binary()), pa.array(np.arange(times) % 2))


def parquet_of_one_image_often(folder: Path) -> Command:
    """Each is below the limit of pixels, all of them are not small."""
    return parquet_of_one_large_image(folder, 3000, 1000)


def parquet_of_a_padded_image(folder: Path) -> Command:
    """4 MB behind one small image, kept once on disk and once for each of a thousand rows in memory."""
    image = png() + bytes(4 << 20)
    images = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array([image], pa.binary()))
    for half in ("train", "test"):
        table = pa.table({"image": images, "label": pa.array(np.arange(1000) % 2)})
        pq.write_table(table, folder / f"{half}.parquet", compression="zstd", store_schema=False)
    return show("parquet", folder)


def parquet_of_a_large_page(folder: Path) -> Command:
    """A hundred megabytes in one page, which the file's table of contents need not announce."""
    image = pa.array([png() + bytes(100 << 20)], pa.binary())
    for half in ("train", "test"):
        table = pa.table({"image": image, "label": pa.array([0])})
        pq.write_table(
            table, folder / f"{half}.parquet", compression="zstd", use_dictionary=False, write_statistics=False
        )
    return show("parquet", folder)


def equal_images(folder: Path) -> Command:
    """24,000 equal images: 144 million pairs of them stand on two sides."""
    for stem, n in (("train", 24_000), ("t10k", 100)):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx(n, 4, 4) + bytes(n * 16))
        labels = (np.arange(n) % 2).astype(np.uint8)
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx(n) + labels.tobytes())
    (folder / "empty.safetensors").touch()
    command = checkpoint(folder / "empty.safetensors")
    return [*command[:4], "--data", f"mnist:{folder}", "--forget", "class:1"]


def list_of_one_image(folder: Path) -> Command:
    """600,000 lines, all of them to one image: a path for each is 1.6 GB."""
    (folder / "a.png").write_bytes(png())
    (folder / "labels.csv").write_text("".join(f"a.png,{n % 2}\n" for n in range(600_000)))
    (folder / "empty.safetensors").touch()
    command = checkpoint(folder / "empty.safetensors")
    return [*command[:4], "--data", f"csv:{folder / 'labels.csv'}", "--forget", "class:1"]


# --- image folders --------------------------------------------------------------------------------


def image_folder(folder: Path, name: str, make: Callable[[Path], object]) -> Command:
    for half in ("train", "test"):
        for c in ("a", "b"):
            (folder / half / c).mkdir(parents=True)
            (folder / half / c / "0.png").write_bytes(png())
    make(folder / "train" / "a" / name)
    model = folder / "model.safetensors"
    rs.save(rs.models.resnet18(classes=2, channels=1, width=2), model)
    return ["measure", str(model), "--data", f"image-folder:{folder}", "--forget", "class:1"]


def saved_to_disk(folder: Path, change: Callable[[bytes, list[int]], bytes]) -> Command:
    """A data set by `save_to_disk`; `change` gets the Arrow file and the offsets of its images."""
    images = [png()] * 4
    table = pa.table({"image": pa.array(images, pa.binary()), "label": pa.array([0, 1] * 2)})
    offsets = [n * len(images[0]) for n in range(5)]
    for half in ("train", "test"):
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        (folder / half).mkdir()
        (folder / half / "data.arrow").write_bytes(change(out.getvalue(), offsets))
        (folder / half / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    model = folder / "model.safetensors"
    rs.save(rs.models.resnet18(classes=2, channels=1, width=2), model)
    return ["measure", str(model), "--data", f"hf-datasets:{folder}", "--forget", "class:1"]


def arrow_with_other_offsets(folder: Path, *others: int) -> Command:
    def change(raw: bytes, offsets: list[int]) -> bytes:
        place = raw.index(struct.pack("<5i", *offsets))
        return raw[:place] + struct.pack("<5i", *others) + raw[place + 20 :]

    return saved_to_disk(folder, change)


def arrow_beyond_the_file(folder: Path) -> Command:
    """The last image ends a gigabyte behind the file."""
    return arrow_with_other_offsets(folder, 0, 100, 200, 300, 2**30)


def arrow_of_negative_length(folder: Path) -> Command:
    return arrow_with_other_offsets(folder, 0, 2**20, 200, 100, 0)


def arrow_that_is_cut_short(folder: Path) -> Command:
    return saved_to_disk(folder, lambda raw, offsets: raw[: raw.index(struct.pack("<5i", *offsets)) + 40])


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def tiff_with_a_huge_tile(folder: Path) -> Command:
    """4 x 4 pixels in a tile of 40,000 x 40,000: 3.3 GB for 16 pixels."""
    entries = ((256, 4), (257, 4), (258, 8), (259, 8), (262, 1), (277, 1), (322, 40_000), (323, 40_000))
    packed = zlib.compress(bytes(1000))
    head = struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", len(entries) + 2)
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    place = 8 + 2 + 12 * (len(entries) + 2) + 4
    body += struct.pack("<HHII", 324, 4, 1, place) + struct.pack("<HHII", 325, 4, 1, len(packed))
    raw = head + body + struct.pack("<I", 0) + packed
    command = image_folder(folder, "1.tif", lambda path: path.write_bytes(raw))
    return [*command, "--size", "4"]


def postscript(folder: Path) -> Command:
    """Pillow starts Ghostscript on it, whatever its name."""
    return image_folder(folder, "1.png", lambda path: path.write_bytes(EPS))


def pipe_among_images(folder: Path) -> Command:
    return image_folder(folder, "1.png", os.mkfifo)


def device_among_images(folder: Path) -> Command:
    return image_folder(folder, "1.png", lambda path: path.symlink_to("/dev/zero"))


def large_image(folder: Path) -> Command:
    """With a size, so that images of several sizes are no reason to refuse it."""
    command = image_folder(folder, "1.png", lambda path: path.write_bytes(large_png(13_000)))
    return [*command, "--size", "32"]


# --- audits ---------------------------------------------------------------------------------------


def edited(folder: Path, change: Callable[[dict], object], record: str | None = None) -> Command:
    """The audit in this folder after `change` of its report, or of a record, whose hash is made to fit."""
    path = folder / "report.json" if record is None else folder / "records" / f"{record}.json"
    body = json.loads(path.read_text("utf-8"))
    change(body)
    path.write_text(json.dumps(body), "utf-8")
    return ["verify", str(folder)]


def pipe_for_a_report(folder: Path) -> Command:
    (folder / "report.json").unlink()
    os.mkfifo(folder / "report.json")
    return ["verify", str(folder)]


def device_for_a_report(folder: Path) -> Command:
    (folder / "report.json").unlink()
    (folder / "report.json").symlink_to("/dev/zero")
    return ["verify", str(folder)]


def pipe_for_a_record(folder: Path) -> Command:
    (folder / "records" / "original.json").unlink()
    os.mkfifo(folder / "records" / "original.json")
    return ["verify", str(folder)]


def device_for_a_page(folder: Path) -> Command:
    (folder / "report.md").unlink()
    (folder / "report.md").symlink_to("/dev/zero")
    return ["verify", str(folder)]


ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m‮"


def escape_sequences(folder: Path) -> Command:
    return edited(folder, lambda body: body["metrics"]["unlearned"].update({ESCAPE: 1.0}))
