"""The tensors in a file by `torch.save`, read by a small parser of our own that knows text, numbers, tensors and containers.

PyTorch's reader is not asked: its archives ignore the case of names and may have two tables of contents, and what it
allows in a pickle can make much out of little. Here an archive has one reading or is refused, so that the weights that
are audited are those that PyTorch would load; a step of the pickle makes no more than one small object; and numbers
are looked up in the file's bytes, for the wanted tensors alone.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
import re
import struct
import tarfile
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from residua.errors import InputError, first_line, printable
from residua.limits import check

ZIP = b"PK\x03\x04"  # by which PyTorch tells archives from what it wrote before them
# A number that says what the file is; version, machine, contents and names of the storages follow.
LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
# Names beside the tensors' own that settings and counters are kept with; nothing is made of them.
OTHERS = re.compile(
    r"""collections\.(OrderedDict|defaultdict|Counter)
    |torch\.(Size|device|Tensor|serialization\._get_layout|storage\.(Untyped|Typed|_Legacy)?Storage|[A-Za-z0-9]+Storage)
    |torch\.(bool|complex\d+|b?float[\d_a-z]+|q?u?int\d+(x\d)?|double|half|long|int|short)
    |torch\.nn\.parameter\.(Parameter|Buffer|UninitializedParameter)
    |torch\._utils\._rebuild_(qtensor|sparse_tensor|meta_tensor_no_storage)
    |torch\._C\._(disabled_torch_function_impl|nn\.\w+)
    |(builtins|__builtin__)\.(set|frozenset|complex)
    """,
    re.VERBOSE,
)
REBUILT = re.compile(r"torch\._utils\._rebuild_tensor(_v2|_v3)?")
WRAPPED = re.compile(r"torch\._utils\._rebuild_parameter(_with_state)?")
SUBCLASS = "torch._tensor._rebuild_from_type_v2"
DTYPES = {
    f"torch.{name}Storage": dtype
    for name, dtype in (
        ("Float", torch.float32), ("Double", torch.float64), ("Half", torch.float16), ("BFloat16", torch.bfloat16),
        ("Long", torch.int64), ("Int", torch.int32), ("Short", torch.int16), ("Char", torch.int8),
        ("Byte", torch.uint8), ("Bool", torch.bool), ("ComplexFloat", torch.complex64),
        ("ComplexDouble", torch.complex128), ("storage.Untyped", torch.uint8),
    )
}  # fmt: skip


class MoreThanWeights(Exception):
    """A pickle that wants something else, which `name` says if it is known."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name or "an unnamed function")
        self.name = name


@dataclass(frozen=True)
class Global:
    """A name in the pickle; nothing is imported."""

    name: str


@dataclass(frozen=True)
class Storage:
    """Numbers of one kind somewhere else in the file."""

    key: str
    dtype: torch.dtype
    count: int


@dataclass(frozen=True)
class Stored:
    """A tensor, or a parameter, as the file describes it."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self, raw: memoryview, path: Path, name: str) -> Tensor:
        """A view of the file's bytes. It has no more numbers than its storage."""
        if not raw:
            flat = torch.empty(0, dtype=self.dtype)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the bytes are not writable, and nobody writes to them
                flat = torch.frombuffer(raw, dtype=self.dtype)
        tensor = torch.as_strided(flat, self.size, self.stride, self.offset)
        if tensor.numel() > flat.numel():
            raise InputError(
                f"checkpoint {path} does not hold the {tensor.numel()} numbers that it says {printable(name, 80)} has; "
                "save the weights with .contiguous()"
            )
        return tensor


def read(path: Path, raw: bytes) -> tuple[Any, Callable[[str, Stored], Tensor]]:
    """The contents of a file, in which tensors are `Stored`, and the function that looks up one of them."""
    if not raw:
        raise InputError(f"checkpoint {path} is empty; give the file that holds the weights")
    try:
        contents, places = _archive(path, raw) if raw.startswith(ZIP) else _before_archives(path, raw)
    except (InputError, MoreThanWeights):
        raise
    except Exception as error:  # bytes that are not what was written can be wrong in every way
        raise _unreadable(path, error) from error
    view = memoryview(raw)

    def tensor(name: str, stored: Stored) -> Tensor:
        try:
            start, end = places[stored.storage.key]
            if end - start != stored.storage.count * stored.storage.dtype.itemsize:
                raise ValueError(f"storage {stored.storage.key} has another size")
            return stored.tensor(view[start:end], path, name)
        except (KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
            if isinstance(error, InputError):
                raise
            raise _unreadable(path, error) from error

    return contents, tensor


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"checkpoint {path} is not a readable PyTorch file ({first_line(error)}); save the weights as safetensors"
    )


Places = Mapping[str, tuple[int, int]]  # where the bytes of a storage begin and end


def _archive(path: Path, raw: bytes) -> tuple[Any, Places]:
    places = _members(raw)
    start, end = places.get("byteorder", (0, 0))
    if raw[start:end] not in (b"", b"little"):
        raise ValueError("numbers in the byte order of another machine")
    start, end = places["data.pkl"]
    contents = _Pickle(path, io.BytesIO(raw[start:end])).contents()
    return contents, {key[5:]: place for key, place in places.items() if key.startswith("data/")}


def _members(raw: bytes) -> Places:
    """Positions of the members of an archive, by their names in its one folder, as `torch.save` writes it.

    Members lie one behind the other, then their table, then the archive's end: no other reader can find other ones.
    """
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members, table = sorted(archive.infolist(), key=lambda each: each.header_offset), archive.start_dir
    _check_end(raw, table, len(members))
    folders = {member.filename.partition("/")[0] for member in members}
    names = [member.filename.partition("/")[2] for member in members]
    # PyTorch asks for names whatever their case: another BYTEORDER would count.
    if len(folders) != 1 or len(set(names)) < len(names) or any(name != name.lower() for name in names):
        raise ValueError("names that torch.save does not write")
    places: dict[str, tuple[int, int]] = {}
    free = 0
    for name, member in zip(names, members, strict=True):
        head = struct.unpack("<4s5H3I2H", raw[member.header_offset : member.header_offset + 30])
        start = member.header_offset + 30 + head[9] + head[10]
        written = raw[member.header_offset + 30 : start - head[10]]
        if head[0] != ZIP or written != member.orig_filename.encode() or member.header_offset < free:
            raise ValueError(f"{printable(member.filename, 80)} is not where the table says")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{printable(member.filename, 80)} is packed, which torch.save never does")
        free = start + member.file_size
        places[name] = start, free
    if not places or members[0].header_offset or free > table:
        raise ValueError("members that overlap or do not begin where the file does")
    return places


def _check_end(raw: bytes, table: int, count: int) -> None:
    """The archive's end says where the table is, in one way only."""
    end = len(raw) - 22
    signature, _, _, _, entries, size, offset, comment = struct.unpack("<4s4H2IH", raw[end:])
    wide = raw[end - 20 : end - 16] == b"PK\x06\x07"
    before = end - 76 if wide else end
    if wide:
        (place,) = struct.unpack("<Q", raw[end - 12 : end - 4])
        found = struct.unpack("<4sQ2H2I4Q", raw[before : before + 56])
        fits = found[0] == b"PK\x06\x06" and place == before and found[6:] == (count, count, before - table, table)
    else:
        fits = True
    narrow = (entries in (count, 0xFFFF), size in (before - table, 0xFFFFFFFF), offset in (table, 0xFFFFFFFF))
    if signature != b"PK\x05\x06" or comment or not fits or not all(narrow):
        raise ValueError("its end is not the one that torch.save writes")


def _before_archives(path: Path, raw: bytes) -> tuple[Any, Places]:
    """The format before the archives: several pickles in a row, and then the numbers of every storage."""
    with contextlib.suppress(tarfile.TarError):  # the format before that, for which PyTorch looks first
        tarfile.TarInfo.frombuf(raw[:512], "utf-8", "surrogateescape")
        raise ValueError("it is a tar archive")
    file = io.BytesIO(raw)
    if file.read(len(LEGACY)) != LEGACY:
        file.seek(0)
        _Pickle(path, file).contents()
        raise ValueError("it does not begin like one")
    parser = _Pickle(path, file)
    version, machine, contents, keys = (parser.contents() for _ in range(4))
    if version != 1001 or not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ValueError("an unknown version, or numbers in the byte order of another machine")
    places: dict[str, tuple[int, int]] = {}
    place = file.tell()
    for key in keys:
        storage = parser.storages[key]
        (count,) = struct.unpack("<q", raw[place : place + 8])
        end = place + 8 + count * storage.dtype.itemsize
        if count < 0 or end > len(raw) or key in places:
            raise ValueError(f"storage {printable(str(key), 40)} is cut short")
        places[key], place = (place + 8, end), end
    return contents, places


# Steps that put their argument on the stack.
PUSHED = frozenset(
    (
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
        "BINBYTES8",
    )
)  # fmt: skip
MARK = object()
# Dimensions of a tensor and arguments of a function, at most: longer ones could be named over and over.
MOST = 64


class _Pickle:
    """One pickle after the other from a file; `storages` are those that they name."""

    def __init__(self, path: Path, file: io.BytesIO) -> None:
        self.path, self.file, self.steps = path, file, 0
        self.storages: dict[str, Storage] = {}

    def contents(self) -> Any:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        for operation, argument, _ in pickletools.genops(self.file):
            self.steps += 1
            check(f"checkpoint {self.path}", "steps", self.steps)
            if operation.name in PUSHED:
                self.stack.append(argument)
            elif operation.name == "STOP":
                return self.stack.pop()
            else:
                self._step(operation.name, argument)
        raise EOFError("a pickle without an end")

    def _step(self, step: str, argument: Any) -> None:
        stack = self.stack
        match step:
            case "PROTO" | "FRAME":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[step])
            case "MARK":
                stack.append(MARK)
            case "POP":
                stack.pop()
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_TUPLE":
                stack.append([] if step == "EMPTY_LIST" else {} if step == "EMPTY_DICT" else ())
            case "TUPLE" | "LIST":
                items = self._marked()
                stack.append(tuple(items) if step == "TUPLE" else items)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack[-int(step[5]) :] = [tuple(stack[-int(step[5]) :])]
            case "APPEND" | "APPENDS":
                items = [stack.pop()] if step == "APPEND" else self._marked()
                _container(stack[-1], list).extend(items)
            case "SETITEM" | "SETITEMS" | "DICT":
                items = self._marked() if step != "SETITEM" else [stack.pop(-2), stack.pop()]
                stack += [{}] if step == "DICT" else []
                _fill(_container(stack[-1], dict), items)
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                self.memo[len(self.memo) if step == "MEMOIZE" else argument] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL":
                stack.append(_named(".".join(str(argument).split(" ", 1))))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_made(function, arguments))
            case "BUILD":
                state = stack.pop()  # of an ordered dictionary, such as the versions of its modules
                if type(stack[-1]) is dict:
                    _attributes(OrderedDict, state)
                elif not isinstance(stack[-1], Global):
                    raise ValueError("a tensor that is changed after it was made")
            case "BINPERSID":
                stack.append(self._storage(stack.pop()))
            case _:
                raise MoreThanWeights

    def _marked(self) -> list[Any]:
        """The values put on the stack since the last mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not MARK:
            items.append(item)
        return items[::-1]

    def _storage(self, words: Any) -> Storage:
        kind, of, key, _, count, *view = words[:MOST]
        if kind != "storage" or not isinstance(of, Global) or any(view) or type(key) is not str:
            raise ValueError("a storage of another kind")
        name = "torch.storage.UntypedStorage" if of.name == "torch.UntypedStorage" else of.name
        found = Storage(key, DTYPES[name], _whole(count))
        if self.storages.setdefault(key, found) != found:
            raise ValueError(f"two storages with the name {printable(key, 40)}")
        return found


def _container(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"a {type(value).__name__} where a {kind.__name__} was expected")
    return value


def _fill(target: dict[Any, Any], items: Sequence[Any]) -> None:
    """Keys are text or small numbers: the hash of others can take for ever, or be the same for all."""
    for key, value in zip(items[::2], items[1::2], strict=True):
        if type(key) is not str and not (type(key) in (int, bool) and abs(key) < 1 << 31):
            raise ValueError("a key that is neither text nor a small number")
        target[key] = value


def _named(name: str) -> Global:
    known = name in (*DTYPES, SUBCLASS) or REBUILT.fullmatch(name) or WRAPPED.fullmatch(name)
    if not known and not OTHERS.fullmatch(name):
        raise MoreThanWeights(printable(name, 80))
    return Global(name)


def _made(function: Any, arguments: Any) -> Any:
    """A tensor, a dictionary, or for all else a name that nobody looks at."""
    if not isinstance(function, Global) or type(arguments) is not tuple or len(arguments) > MOST:
        raise MoreThanWeights
    if function.name == SUBCLASS:
        _attributes(Tensor, *arguments[3:])
        return _made(arguments[0], arguments[2]) if arguments[0] != function else Global(SUBCLASS)
    if WRAPPED.fullmatch(function.name):
        _attributes(Tensor, *arguments[3:])
        return arguments[0]
    if function.name.startswith("collections."):
        if not all(_counts(each) for each in arguments):
            raise ValueError("a dictionary that is filled while it is made")
        return {}
    if not REBUILT.fullmatch(function.name):
        return Global(function.name)
    storage, offset, size, stride, *more = arguments
    if not isinstance(storage, Storage) or type(size) is not tuple or type(stride) is not tuple:
        raise ValueError("a tensor without numbers")
    newest = function.name.endswith("_v3")
    if len(size) > MOST or len(size) != len(stride) or any(more[3 if newest else 2 :]):
        raise ValueError("a tensor of too many dimensions, or one of which PyTorch shows other numbers than are stored")
    dtype = storage.dtype
    if newest:
        dtype = getattr(torch, more[2].name.removeprefix("torch."))
        if not isinstance(dtype, torch.dtype):
            raise ValueError("a tensor of an unknown kind of numbers")
    return Stored(storage, _whole(offset), tuple(map(_whole, size)), tuple(map(_whole, stride)), dtype)


def _attributes(of: type, *states: Any) -> None:
    """Refuse attributes that would take the place of those that the object has, its numbers among them."""
    for part in (part for state in states for part in (state if type(state) is tuple else (state,))[:MOST]):
        names = part if type(part) is dict and len(part) <= MOST else () if part is None else [None]
        if not all(type(name) is str and not hasattr(of, name) for name in names):
            raise ValueError("a tensor, or a dictionary of them, of which a part is replaced")


def _counts(argument: Any) -> bool:
    """True if it is nothing, the name of a kind, or a few counts by number."""
    few = type(argument) is dict and len(argument) <= MOST
    return not argument or isinstance(argument, Global) or (few and {type(n) for n in argument.values()} <= {int})


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError("a size that is no whole number")
    return number
