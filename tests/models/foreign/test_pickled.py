"""The parser of PyTorch's files: it reads what PyTorch reads, and an archive with two readings is refused."""

from __future__ import annotations

import collections
import io
import struct
import time
import zipfile
from pathlib import Path

import pytest
import torch

from residua.errors import InputError
from residua.models.checkpoint import Checkpoint
from residua.models.foreign.fitting import weights_in
from residua.models.foreign.pickled import MoreThanWeights, Stored, read

BASE = torch.arange(12.0).reshape(3, 4)
TENSORS = {
    "plain": BASE,
    "transposed": BASE.t(),
    "part": BASE[1:, ::2],
    "scalar": torch.tensor(3),
    "empty": torch.zeros(0, 5),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "buffer": torch.nn.Buffer(torch.ones(2)),
    **{str(dtype): torch.ones(3).to(dtype) for dtype in (
        torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.bool, torch.complex64)},
}  # fmt: skip
NEWER = {str(dtype): torch.ones(3).to(dtype) for dtype in (torch.uint16, torch.float8_e4m3fn)}


@pytest.mark.parametrize("archive", [True, False])
def test_every_kind_of_tensor_is_what_pytorch_reads(tmp_path, archive):
    about = {"lr": 0.1, "betas": (0.9, 0.999), "names": ["a"], "size": torch.Size([2]), "where": torch.device("cpu"),
             "kind": torch.float32, "count": collections.Counter("aab"), "none": None, "state": {0: {"step": BASE}}}  # fmt: skip
    torch.save({"model": TENSORS, "more": about}, tmp_path / "m.pt", _use_new_zipfile_serialization=archive)
    found = weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)
    expected = torch.load(tmp_path / "m.pt", weights_only=False)["model"]
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name].view(torch.uint8) if tensor.is_floating_point() and tensor.itemsize == 1 else found[name],
                           tensor.view(torch.uint8) if tensor.is_floating_point() and tensor.itemsize == 1 else tensor.data)  # fmt: skip


def saved(path: Path) -> dict[str, bytes]:
    torch.save({"w": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def rewritten(path: Path, members: list[tuple[str, bytes]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)


def other_case(path: Path) -> None:
    members = saved(path)
    rewritten(path, [*members.items(), ("m/DATA.PKL", members["m/data.pkl"])])


@pytest.mark.filterwarnings("ignore:Duplicate name")
def twice(path: Path) -> None:
    members = saved(path)
    rewritten(path, [*members.items(), ("m/data.pkl", b"\x80\x02}.")])


def two_folders(path: Path) -> None:
    members = saved(path)
    rewritten(path, [*members.items(), ("other/data.pkl", members["m/data.pkl"])])


def two_tables(path: Path) -> None:
    """Another archive behind the first: which of the two tables counts depends on the reader."""
    first, second = io.BytesIO(), io.BytesIO()
    torch.save({"w": torch.ones(2)}, first)
    torch.save({"w": torch.zeros(2)}, second)
    path.write_bytes(first.getvalue() + second.getvalue())


def comment(path: Path) -> None:
    saved(path)
    raw = path.read_bytes()
    path.write_bytes(raw[:-2] + struct.pack("<H", 22) + raw[-22:])


def other_place(path: Path) -> None:
    """The two ends of a large archive name two places for its table."""
    saved(path)
    raw = bytearray(path.read_bytes())
    assert raw[-42:-38] == b"PK\x06\x07"
    raw[-6:-2] = struct.pack("<I", 4)
    path.write_bytes(bytes(raw))


def other_name(path: Path) -> None:
    saved(path)
    path.write_bytes(path.read_bytes().replace(b"m/data/0", b"m/data/1", 1))


ODD = [other_case, twice, two_folders, two_tables, comment, other_place, other_name]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_an_archive_that_readers_could_read_in_two_ways_is_refused(tmp_path, make):
    make(tmp_path / "m.pt")
    with pytest.raises(InputError, match="not a readable PyTorch file"):
        weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)


def pickled(body: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + body + b".")
    return out.getvalue()


HOSTILE = {
    "a key of nested tuples": b"}(" + b")" + b"2\x86" * 45 + b"K\x01u",
    "a list as a function": b"](K\x01tR",
    "keys of one hash": b"}(" + b"".join(b"\x8a\x09" + (i * (2**61 - 1)).to_bytes(9, "little") + b"N" for i in range(20)) + b"u",
    "an attribute": b"ctorch\nload\n",
    "a list among its items": b"]q\x00h\x00a(h\x00tR",
    "a number of many digits": b"L" + b"9" * 9000 + b"L\n",
    "a stack that is empty": b"R",
    "no such memory": b"h\x07",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_pickle_ends_at_once(case):
    start = time.process_time()
    with pytest.raises((InputError, MoreThanWeights)):
        read(Path("m.pt"), pickled(HOSTILE[case]))
    assert time.process_time() - start < 1


def test_a_tensor_beyond_its_storage_is_refused(tmp_path):
    torch.save({"w": torch.ones(4)}, tmp_path / "m.pt")
    contents, tensor = read(tmp_path / "m.pt", (tmp_path / "m.pt").read_bytes())
    whole = contents["w"]
    assert torch.equal(tensor("w", whole), torch.ones(4))
    for change in ({"offset": 1}, {"size": (2, 3)}, {"stride": (2,)}, {"size": (9,), "stride": (0,)}):
        part = {name: getattr(whole, name) for name in ("storage", "offset", "size", "stride", "dtype")}
        with pytest.raises(InputError):
            tensor("w", Stored(**part | change))
