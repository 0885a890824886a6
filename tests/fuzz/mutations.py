"""Mutations: damaged and forged variants of a sound file, each named by a number."""

from __future__ import annotations

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Bytes = Callable[[bytes, Random], bytes]

# Where sizes and signs overflow.
NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    -(2**63),
)
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -1e308, 1e-300, "", "x", "\x1b[2J", "nan", "../canary/mine", "x" * 5000, [], [[]], {},
    [0] * 50, {"": ""}, {"measure": "x"},
)  # fmt: skip


def flipped(raw: bytes, random: Random) -> bytes:
    """A few bits changed."""
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def overwritten(raw: bytes, random: Random) -> bytes:
    """A number that overflows something in place of some bytes."""
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 3))):
        width, number = random.choice("bhiq"), random.choice(NUMBERS)
        size = struct.calcsize(width)
        packed = struct.pack(random.choice("<>") + width.upper(), number % (1 << 8 * size))
        # Headers stand at the beginning, and directories at the end.
        place = random.choice(
            (random.randrange(len(data)), random.randrange(min(64, len(data))), -random.randrange(1, 64))
        )
        place %= len(data)
        data[place : place + size] = packed
    return bytes(data)


def cut(raw: bytes, random: Random) -> bytes:
    return raw[: random.choice((random.randrange(len(raw)), random.randrange(min(64, len(raw)))))]


def spliced(raw: bytes, random: Random) -> bytes:
    """A piece removed, repeated or moved."""
    start = random.randrange(len(raw))
    piece = raw[start : start + random.choice((1, 4, 30, 500))]
    rest = raw[:start] + raw[start + len(piece) :]
    where = random.randrange(len(rest) + 1)
    times = random.choice((0, 1, 2, 50))
    return rest[:where] + piece * times + rest[where:]


def noisy(raw: bytes, random: Random) -> bytes:
    start = random.randrange(len(raw))
    return raw[:start] + random.randbytes(random.choice((1, 8, 100))) + raw[start:]


ANY: tuple[Bytes, ...] = (flipped, overwritten, cut, spliced, noisy)


def damaged(raw: bytes, random: Random) -> bytes:
    """Any damage to the bytes as they are."""
    return random.choice(ANY)(raw, random) if raw else random.randbytes(8)


def in_gzip(raw: bytes, random: Random) -> bytes:
    """Damage to what is packed, under a checksum that fits it, or to the packing."""
    if random.random() < 0.7:
        return gzip.compress(damaged(gzip.decompress(raw), random), 1, mtime=0)
    return damaged(raw, random)


def in_zip(raw: bytes, random: Random) -> bytes:
    """Damage to a member, under a checksum that fits it; or to names, packing and directory."""
    if random.random() < 0.3:
        return damaged(raw, random)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(member.filename, archive.read(member), member.compress_type) for member in archive.infolist()]
    out = io.BytesIO()
    victim = random.randrange(len(members))
    with zipfile.ZipFile(out, "w") as archive:
        for i, (name, content, packing) in enumerate(members):
            if i == victim:
                content = in_header(content, random) if random.random() < 0.5 else damaged(content, random)
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return out.getvalue()


def in_header(raw: bytes, random: Random) -> bytes:
    """Damage near the beginning, where shapes and types stand, of a length that still fits."""
    start = min(len(raw), random.choice((16, 64, 128, 400)))
    return damaged(raw[:start], random)[:start].ljust(start, b" ") + raw[start:]


def in_png(raw: bytes, random: Random) -> bytes:
    """Damage to a chunk, under a checksum that fits it."""
    if not raw.startswith(b"\x89PNG") or random.random() < 0.3:
        return damaged(raw, random)
    chunks, place = [], 8
    while place < len(raw):
        (length,) = struct.unpack(">I", raw[place : place + 4])
        chunks.append([raw[place + 4 : place + 8], raw[place + 8 : place + 8 + length]])
        place += 12 + length
    chunk = random.choice(chunks)
    chunk[1] = damaged(chunk[1], random)
    body = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in chunks)
    return raw[:8] + b"".join(body)


def in_json(raw: bytes, random: Random) -> bytes:
    """Another value, name or structure somewhere in the tree, as JSON that can be read; or damage to the text."""
    if random.random() < 0.2:
        return damaged(raw, random)
    tree = json.loads(raw)
    for _ in range(random.choice((1, 1, 2, 5))):
        change(tree, random)
    return json.dumps(tree).encode()


def change(tree: Any, random: Random) -> None:
    """Change one place of a tree of plain values."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and random.random() < 0.85:
            tree = tree[key]
            continue
        what = random.random()
        if what < 0.15 and isinstance(tree, dict):
            tree[random.choice(("", "x", "\x1b[31m", "0"))] = tree.pop(key)
        elif what < 0.3:
            del tree[key]
        else:
            tree[key] = copy.deepcopy(random.choice(VALUES))  # which is itself changed later
        return
