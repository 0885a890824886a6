"""Limits on the cost of reading a file: bytes, pixels, classes, rows and seconds, checked before allocation.

An audit opens files of people who may want to pass it, so no reader takes a file's word for how much memory, disk or
time it needs. Every limit is far above what the data sets of the field need, and an environment variable raises it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from residua.device import memory_budget
from residua.errors import InputError
from residua.text import whole_number

# A file may always unpack into this much, however small it is.
FLOOR = 64 << 20
# Bytes per second below which reading counts as a hang.
SLOWEST = 100_000


@dataclass(frozen=True)
class Limit:
    """The variable that raises a limit, its default, and what is counted."""

    variable: str
    default: Callable[[], int]
    unit: str


def _free_disk() -> int:
    """Half of what is free where temporary files go."""
    return shutil.disk_usage(tempfile.gettempdir()).free // 2


LIMITS = {
    "memory": Limit("RESIDUA_MAX_MEMORY", memory_budget, "bytes in memory"),
    "growth": Limit("RESIDUA_MAX_GROWTH", lambda: 100, "times its size on disk"),
    "disk": Limit("RESIDUA_MAX_DISK", _free_disk, "bytes of temporary disk space"),
    "text": Limit("RESIDUA_MAX_TEXT", lambda: 16 << 20, "bytes of text"),
    "pixels": Limit("RESIDUA_MAX_PIXELS", lambda: 50_000_000, "pixels in one image"),
    "classes": Limit("RESIDUA_MAX_CLASSES", lambda: 100_000, "classes"),
    "rows": Limit("RESIDUA_MAX_ROWS", lambda: 20_000_000, "rows"),
    "steps": Limit("RESIDUA_MAX_STEPS", lambda: 1_000_000, "steps of a pickle"),
    "seconds": Limit("RESIDUA_MAX_SECONDS", lambda: 60, "seconds"),
}


def limit(name: str) -> int:
    """The limit of this name: its variable's value, or the default."""
    one = LIMITS[name]
    value = os.environ.get(one.variable)
    if value is None:
        return one.default()
    number = whole_number(value)
    if number is None:
        raise InputError(f"{one.variable} is {value!r}, expected a whole number of {one.unit}; correct it")
    return number


def check(where: object, name: str, amount: int) -> None:
    """Refuse what asks for more than the limit of this name; `where` is the file, or a place in it."""
    most = limit(name)
    if amount > most:
        raise InputError(
            f"{where} has {amount} {LIMITS[name].unit}, expected at most {most}; "
            f"if that is right, set {LIMITS[name].variable}={amount} in the environment"
        )


def check_unpacked(where: object, amount: int, on_disk: int, budget: int | None = None) -> None:
    """Refuse what would unpack into more than `budget` bytes, or into far more than it has on disk.

    Without a `budget` that is the limit of memory, and `growth` times the size on disk; 64 MiB are always allowed.
    """
    if budget is not None:
        if amount > budget:
            raise InputError(f"{where} would unpack into {amount} bytes, expected at most {budget}; raise budget=")
        return
    if amount > limit("memory"):
        raise _too_large(where, amount, limit("memory"), "memory", amount)
    check_growth(where, amount, on_disk)


def check_growth(where: object, amount: int, on_disk: int) -> None:
    """Refuse what would unpack, into memory or onto the disk, into far more than it has on disk now."""
    most = max(FLOOR, limit("growth") * on_disk)
    if amount > most:
        raise _too_large(where, amount, most, "growth", -(-amount // max(on_disk, 1)))


def _too_large(where: object, amount: int, most: int, name: str, needed: int) -> InputError:
    return InputError(
        f"{where} would unpack into {amount} bytes, expected at most {most}; "
        f"if that is right, set {LIMITS[name].variable}={needed} in the environment"
    )


class Unpacking:
    """A stream that unpacks a file, and refuses to give more bytes than the limits allow for that file."""

    def __init__(self, stream: IO[bytes], where: object, on_disk: int) -> None:
        self.stream, self.where, self.on_disk = stream, where, on_disk
        self.done = 0
        self.most = min(limit("memory"), max(FLOOR, limit("growth") * on_disk))

    def read(self, size: int = -1) -> bytes:
        room = self.most - self.done + 1
        data = self.stream.read(room if size < 0 else min(size, room))
        self.done += len(data)
        check_unpacked(self.where, self.done, self.on_disk)
        return data


class Clock:
    """Refuses what takes too long to read: `seconds`, and more for what is large on disk."""

    def __init__(self, where: object, on_disk: int) -> None:
        self.where = where
        self.most = max(limit("seconds"), on_disk / SLOWEST)
        self.end = time.monotonic() + self.most

    def check(self) -> None:
        if time.monotonic() > self.end:
            raise InputError(
                f"{self.where} took more than {self.most:.0f} seconds to read; if that is right, set "
                f"{LIMITS['seconds'].variable} in the environment to allow more"
            )
