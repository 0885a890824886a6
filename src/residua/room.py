"""Room for large arrays, decided by their size before anything is computed: memory, a file whose space is reserved, or none.

A file that is mapped without its space being reserved kills the process once the disk is full (`Bus error`).
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from residua.device import memory_budget
from residua.errors import InputError

Place = Literal["memory", "file", "nowhere"]
Name = TypeVar("Name", bound=Hashable)
# The fraction of a disk's free space that is taken at most.
TAKEN = 0.9


def places(sizes: Mapping[Name, int], memory: int | None = None, disk: int | None = None) -> dict[Name, Place]:
    """The place of each array of so many bytes: the smallest are in memory, the next in a file, the rest nowhere.

    Args:
        sizes: Bytes by name.
        memory: Bytes of memory that they may take together; by default `memory_budget()`.
        disk: Bytes of the temporary folder that they may take; by default `TAKEN` of what is free there.
    """
    memory = memory_budget() if memory is None else memory
    disk = int(TAKEN * shutil.disk_usage(tempfile.gettempdir()).free) if disk is None else disk
    found: dict[Name, Place] = {}
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        found[name] = "memory" if size <= memory else "file" if size <= disk else "nowhere"
        memory -= size if found[name] == "memory" else 0
        disk -= size if found[name] == "file" else 0
    return found


def array(shape: Sequence[int], dtype: npt.DTypeLike, place: Place, what: str) -> npt.NDArray:
    """An array in memory, or in a temporary file without a name whose space is reserved.

    Args:
        shape: Its shape.
        dtype: Type of its numbers.
        place: What `places` found.
        what: What it holds, for the sentence that says that there is no room for it.
    """
    length = math.prod(shape) * np.dtype(dtype).itemsize
    if place == "memory" or not length:
        return np.empty(shape, dtype)
    try:
        if place == "nowhere":
            raise OSError
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, length)
            return np.memmap(file, dtype, mode="r+" if hasattr(os, "posix_fallocate") else "w+", shape=tuple(shape))
    except OSError as error:
        raise InputError(
            f"the temporary folder {tempfile.gettempdir()} has no room for {length} bytes of {what}; "
            "set TMPDIR to a folder that has, or give this process more memory"
        ) from error
