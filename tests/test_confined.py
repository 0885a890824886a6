"""Children in which strangers' files are decoded: a crash, a hang and a hunger for memory are refusals that name the file."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np
import pytest

from residua import confined
from residua.confined import Confined, beginning, in_parts, once, shared
from residua.errors import InputError

pytestmark = pytest.mark.skipif(not confined.FORKS, reason="only Linux forks safely")
ROOM = 256 << 20


def test_requests_are_answered_by_one_child():
    with Confined(lambda n: f"{os.getpid()} {n}".encode(), "x", memory=ROOM) as child:
        first, second = (child.ask(n).split() for n in ("a" * 300_000, "b"))
    assert first[0] == second[0] != str(os.getpid()).encode()
    assert len(first[1]) == 300_000
    with pytest.raises(ProcessLookupError):
        os.kill(int(first[0]), 0)


def crash() -> bytes:
    beginning("the third image")
    ctypes.string_at(0)
    return b""


def hang() -> bytes:
    beginning("the third image")
    while True:
        time.sleep(0.01)


def burn() -> bytes:
    beginning("the third image")
    while True:
        pass


def fill() -> bytes:
    beginning("the third image")
    return bytes(np.ones(1 << 30, np.uint8))


def refuse() -> bytes:
    raise InputError("x is bad; mend it")


def err() -> bytes:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (crash, InputError, r"the third image made its decoder crash \(SIGSEGV\); replace"),
        (hang, InputError, "the third image takes too long to decode"),
        (fill, InputError, "the third image needs more memory than it may take"),
        (refuse, InputError, "^x is bad; mend it$"),
        (err, RuntimeError, "KeyError"),
    ],
)
def test_how_a_child_ends_is_how_the_call_does(work, error, words):
    with pytest.raises(error, match=words):
        once(work, "file", memory=ROOM, seconds=1)


def test_processor_time_is_limited_for_each_image(monkeypatch):
    monkeypatch.setenv("RESIDUA_MAX_SECONDS", "10")
    start = time.process_time()
    with pytest.raises(InputError, match="the third image takes too long"):
        once(burn, "file", memory=ROOM, seconds=60)
    assert time.process_time() - start < 1


def test_parts_fill_what_all_see(monkeypatch):
    monkeypatch.setattr(confined, "cores", lambda: 3)
    rows = shared((500, 2))

    def work(part: int, parts: int) -> bytes:
        rows[part::parts] = part + 1
        return bytes([part])

    assert list(in_parts(work, "x", len(rows), memory=ROOM, seconds=10)) == [b"\0", b"\1", b"\2"]
    assert rows[:, 0].tolist() == [1 + n % 3 for n in range(500)]
