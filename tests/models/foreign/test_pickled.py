"""The parser of PyTorch's files: it reads what PyTorch reads, and an archive with two readings is refused."""

from __future__ import annotations

import collections
import io
import struct
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import torch

from residua.errors import InputError
from residua.models.checkpoint import Checkpoint
from residua.models.foreign.fitting import weights_in
from residua.models.foreign.pickled import LEGACY, MoreThanWeights, Stored, read

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


def numbers_elsewhere(path: Path) -> None:
    """PyTorch looks up storages under data/ alone."""
    members = saved(path)
    rewritten(path, [*members.items(), ("m/0", members["m/data/0"][::-1])])


def other_order(path: Path) -> None:
    """PyTorch would turn the bytes of every number round."""
    rewritten(path, [(name.replace("byteorder", "BYTEORDER"), b"big" if name.endswith("byteorder") else content)
                     for name, content in saved(path).items()])  # fmt: skip


ODD = [other_case, twice, two_folders, two_tables, comment, other_place, other_name, other_order]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_an_archive_that_readers_could_read_in_two_ways_is_refused(tmp_path, make):
    make(tmp_path / "m.pt")
    with pytest.raises(InputError, match="not a readable PyTorch file"):
        weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)


def test_numbers_outside_of_their_folder_are_nobodys(tmp_path):
    numbers_elsewhere(tmp_path / "m.pt")
    found = weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)["w"]
    assert torch.equal(found, torch.load(tmp_path / "m.pt")["w"])


class Made:
    """The calls of a pickle, their arguments, and the changes that follow."""

    def __init__(self, *steps: object) -> None:
        self.steps = steps

    def __reduce__(self) -> tuple:
        return self.steps


def plain(tensor: torch.Tensor, *more: object) -> Made:
    storage = torch.storage.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
    about = (storage, 0, tuple(tensor.shape), tensor.stride(), False, collections.OrderedDict())
    return Made(torch._utils._rebuild_tensor_v2, (*about, *more))


ONES, NINES = torch.ones(4), torch.full((4,), 9.0)
NINE = {"data": plain(NINES)}
# PyTorch shows other numbers for these than those that the tensor is made of.
SHIFTED = {
    "negated": plain(ONES, {"neg": True}),
    "changed": Made(*plain(ONES).steps, (plain(NINES).steps[1][0], 0, (4,), (1,))),
    "a parameter's data": Made(
        torch._utils._rebuild_parameter_with_state, (plain(ONES), False, collections.OrderedDict(), NINE)
    ),
    "a subclass's data": Made(
        torch._tensor._rebuild_from_type_v2, (*plain(ONES).steps[:1], torch.Tensor, plain(ONES).steps[1], NINE)
    ),
    "in slots": Made(
        torch._utils._rebuild_parameter_with_state, (plain(ONES), False, collections.OrderedDict(), (None, NINE))
    ),
    "filled while it is made": Made(collections.OrderedDict, ([("w", plain(NINES))],)),
    "counted": Made(collections.Counter, ({"w": plain(NINES)},)),
    "methods of a dictionary": Made(collections.OrderedDict, (), {"items": collections.OrderedDict}),
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("case", SHIFTED)
def test_a_tensor_of_which_pytorch_would_show_other_numbers_is_refused(tmp_path, case, archive):
    torch.save({"w": SHIFTED[case]}, tmp_path / "m.pt", _use_new_zipfile_serialization=archive)
    with pytest.raises(InputError, match="not a readable PyTorch file"):
        weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)


def test_attributes_beside_the_numbers_stay_without_effect(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.sharded = True
    torch.save({"w": parameter}, tmp_path / "m.pt")
    assert torch.equal(weights_in(Checkpoint(tmp_path / "m.pt"), trust=False)["w"], torch.ones(2))


def test_a_file_that_is_a_tar_archive_too_is_refused():
    """PyTorch looks for those first where a file does not begin like its own archives."""
    head = bytearray(tarfile.TarInfo("sys_info").tobuf(tarfile.USTAR_FORMAT))
    head[: len(LEGACY)] = LEGACY
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    with pytest.raises(InputError, match="it is a tar archive"):
        read(Path("m.pt"), bytes(head))


def pickled(body: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + body + b".")
    return out.getvalue()


REBUILT = b"ctorch._utils\n_rebuild_tensor_v2\nq\x01"
HOSTILE = {
    "a key of nested tuples": b"}(" + b")" + b"2\x86" * 45 + b"K\x01u",
    "a list as a function": b"](K\x01tR",
    "keys of one hash": b"}(" + b"".join(b"\x8a\x09" + (i * (2**61 - 1)).to_bytes(9, "little") + b"N" for i in range(20)) + b"u",
    "an attribute": b"ctorch\nload\n",
    "a list among its items": b"]q\x00h\x00a(h\x00tR",
    "a number of many digits": b"L" + b"9" * 9000 + b"L\n",
    "a stack that is empty": b"R",
    "no such memory": b"h\x07",
    "arguments over and over": REBUILT + b"(" + b"N" * 100_000 + b"tq\x02" + b"h\x01h\x02R0" * 20_000,
    "a storage over and over": b"(" + b"N" * 100_000 + b"tq\x02" + b"h\x02Q0" * 20_000,
    "a size over and over": REBUILT + b"(" + b"K\x00" * 100_000 + b"tq\x02"
    + b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000NK\0tQq\x030"
    + b"(h\x03K\x00h\x02h\x02tq\x040" + b"h\x01h\x04R0" * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_pickle_ends_at_once(case):
    start = time.process_time()
    with pytest.raises((InputError, MoreThanWeights)):
        read(Path("m.pt"), pickled(HOSTILE[case]))
    assert time.process_time() - start < 2


def test_a_tensor_beyond_its_storage_is_refused(tmp_path):
    torch.save({"w": torch.ones(4)}, tmp_path / "m.pt")
    contents, tensor = read(tmp_path / "m.pt", (tmp_path / "m.pt").read_bytes())
    whole = contents["w"]
    assert torch.equal(tensor("w", whole), torch.ones(4))
    for change in ({"offset": 1}, {"size": (2, 3)}, {"stride": (2,)}, {"size": (9,), "stride": (0,)}):
        part = {name: getattr(whole, name) for name in ("storage", "offset", "size", "stride", "dtype")}
        with pytest.raises(InputError):
            tensor("w", Stored(**part | change))
