"""Arrays in .npz files: every header is checked before anything is read, and nothing is unpickled.

A file is a zip archive of arrays, each with a header of its own. `numpy.load` believes headers; here header, archive
and limits must agree first, so that a small file cannot ask for much memory.
"""

from __future__ import annotations

import ast
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from residua.errors import InputError, first_line
from residua.files import open_regular, reading
from residua.limits import check, check_unpacked

MAGIC = b"\x93NUMPY\x01\x00"  # version 1; numpy writes no other for plain arrays
LONGEST_HEADER = 10_000  # numpy's own limit
# Numbers, truth values, text and dates; text of no length would be given some.
PLAIN = re.compile(r"[<>|=]?(\?|[biufc]\d{1,2}|[SU][1-9]\d{0,6}|[mM]8(\[\w{1,9}\])?)")
MOST_DIMENSIONS = 32

# What zipfile and zlib raise over damaged or hostile bytes.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, OSError, ValueError, TypeError, KeyError, EOFError, NotImplementedError,
    RuntimeError, OverflowError, IndexError, AttributeError,
)  # fmt: skip


@dataclass(frozen=True)
class Header:
    """Type, shape and order of an array, by the header that stands before its values."""

    dtype: np.dtype
    shape: tuple[int, ...]
    order: str

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, compressed, under any name: `np.savez_compressed` would add an ending to a path."""
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_npz(
    path: str | Path,
    name_of: Callable[[zipfile.ZipInfo], str],
    *,
    cost: Callable[[str, Header], int] = lambda name, header: header.size,
    budget: int | None = None,
    what: str = "an .npz file",
) -> dict[str, np.ndarray]:
    """The arrays of this file by name, once all headers have been found good.

    `name_of` gives each member's name or refuses it, `cost` says how many bytes an array will need. More than
    `budget` bytes together, or without it more than the limits allow, are refused.
    """
    with open_regular(path, what) as raw, reading(path):
        on_disk = raw.seek(0, 2)
        check(path, "memory", on_disk)
        try:
            with zipfile.ZipFile(raw) as archive:
                members: dict[str, tuple[zipfile.ZipInfo, Header]] = {}
                for member in archive.infolist():
                    name = name_of(member)
                    if name in members:
                        raise InputError(f"{path} holds {member.filename!r} twice, expected it once; leave one out")
                    members[name] = (member, _member_header(path, name, archive, member))
                total = sum(cost(name, header) for name, (_, header) in members.items())
                check_unpacked(path, total, on_disk, budget)
                return {name: _values(archive, *found) for name, found in members.items()}
        except InputError:
            raise
        except DAMAGE as error:
            raise InputError(
                f"{path} is not a readable .npz file ({first_line(error)}); write it with numpy.savez"
            ) from error


def read_npy(path: str | Path, what: str = "an .npy file") -> np.ndarray:
    """The array in an .npy file."""
    with open_regular(path, what) as raw, reading(path):
        on_disk = raw.seek(0, 2)
        check(path, "memory", on_disk)
        raw.seek(0)
        try:
            header = read_header(raw)
            if header.dtype.kind in "OV":
                kind = "pickled objects" if header.dtype.hasobject else "structured values"
                raise InputError(f"{path} holds {kind}, expected numbers; save a plain array")
            if raw.tell() + header.size != on_disk:
                raise ValueError("header and values do not fill the file")
            return _filled(raw, header)
        except InputError:
            raise
        except (ValueError, EOFError) as error:
            raise InputError(
                f"{path} is not a readable .npy file ({first_line(error)}); write it with numpy.save"
            ) from error


def read_header(file: IO[bytes]) -> Header:
    """The header at the start of an array; ValueError if it is damaged or not that of plain values."""
    start = file.read(len(MAGIC) + 2)
    if start[: len(MAGIC)] != MAGIC or len(start) < len(MAGIC) + 2:
        raise ValueError("an array with an unusual header")
    length = int.from_bytes(start[len(MAGIC) :], "little")
    text = file.read(min(length, LONGEST_HEADER))
    if len(text) != length:
        raise ValueError("an array whose header is cut short or too long")
    try:
        fields = ast.literal_eval(text.decode("latin1"))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"an array with a damaged header, {first_line(error)}") from error
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise ValueError("an array with a damaged header")
    shape, descr = fields["shape"], fields["descr"]
    if not isinstance(shape, tuple) or len(shape) > MOST_DIMENSIONS or any(type(side) is not int for side in shape):
        raise ValueError("an array with a damaged shape")
    if any(side < 0 for side in shape):
        raise ValueError("an array with a negative side")
    return Header(_dtype(descr), shape, "F" if fields["fortran_order"] is True else "C")


def _dtype(descr: object) -> np.dtype:
    if isinstance(descr, str) and descr.lstrip("<>|=") == "O":
        return np.dtype(object)
    if not isinstance(descr, str) or not PLAIN.fullmatch(descr):
        return np.dtype("V1")  # neither numbers nor text: every caller refuses it
    try:
        return np.dtype(descr)
    except TypeError as error:
        raise ValueError(f"an array of the unknown type {descr}") from error


def _member_header(path: str | Path, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Header:
    """The array's header, which must agree with the archive's directory."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{path} packs {name} in an unusual way; write it with numpy.savez or savez_compressed")
    with archive.open(member) as file:
        header = read_header(file)
        if header.dtype.hasobject:
            raise InputError(f"{path} holds {name} as pickled objects, expected numbers; save a plain array")
        if header.dtype.kind == "V":
            raise InputError(f"{path} holds {name} as structured values, expected numbers; save a plain array")
        if file.tell() + header.size != member.file_size:
            raise InputError(f"{path} says that {name} has {header.size} bytes, which it does not have; write it again")
    return header


def _values(archive: zipfile.ZipFile, member: zipfile.ZipInfo, header: Header) -> np.ndarray:
    with archive.open(member) as file:
        read_header(file)
        values = _filled(file, header)
        file.read(1)  # the checksum is compared when the end is reached
    return values


def _filled(file: IO[bytes], header: Header) -> np.ndarray:
    values = np.zeros(math.prod(header.shape), header.dtype)
    room = values.view(np.uint8).data if header.size else memoryview(b"")
    done = 0
    while done < len(room):
        chunk = file.read(min(1 << 20, len(room) - done))
        if not chunk:
            raise EOFError("an array that is cut short")
        room[done : done + len(chunk)] = chunk
        done += len(chunk)
    return values.reshape(header.shape, order="F" if header.order == "F" else "C")
