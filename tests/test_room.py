from __future__ import annotations

import errno
import os
import shutil
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest

from residua import room
from residua.errors import InputError


def test_the_smallest_arrays_are_in_memory_the_next_on_disk_and_the_rest_nowhere():
    sizes = {"huge": 1000, "small": 10, "large": 100, "middle": 50}
    found = room.places(sizes, memory=65, disk=100)
    assert found == {"small": "memory", "middle": "memory", "large": "file", "huge": "nowhere"}
    assert set(room.places(sizes, memory=2000, disk=0).values()) == {"memory"}


@pytest.mark.parametrize("place", ["memory", "file"])
def test_an_array_holds_what_is_written_wherever_it_is(place):
    made = room.array((3, 4), np.float32, place, "numbers")
    made[:] = 2.5
    assert made.sum() == 30
    assert isinstance(made, np.memmap) == (place == "file")


def test_a_disk_without_room_says_so_before_anything_is_computed(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for place in ("file", "nowhere"):
        with pytest.raises(InputError, match="no room for 48 bytes of numbers; set TMPDIR"):
            room.array((3, 4), np.float32, place, "numbers")


def test_the_disk_that_counts_is_that_of_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000 if folder == str(tmp_path) else 0)
    )
    assert room.places({"fits": 900}, memory=0) == {"fits": "file"}
    assert room.places({"too large": 901}, memory=0) == {"too large": "nowhere"}
