"""Stub jobs. Workers find these by name; without PyTorch they start in a tenth of a second."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from residua.errors import Diverged
from residua.files import write_atomically


def double(number: int) -> int:
    return 2 * number


def threads(_: int) -> tuple[int, int]:
    import torch

    return os.getpid(), torch.get_num_threads()


def kill_once(place: str) -> str:
    """Ends its own process the hard way, unless `place` shows that it has done so before."""
    if not Path(place).exists():
        Path(place).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def kill_always(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


def no_memory(_: str) -> None:
    raise MemoryError


def diverge(_: str) -> None:
    raise Diverged("the loss is nan; use a smaller learning rate")


class OddError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def odd(_: str) -> None:
    raise OddError("no", "pe")


def path_and_modules(_: str) -> tuple[list[str], list[str]]:
    return sys.path, [str(getattr(module, "__file__", "")) for module in sys.modules.values()]


def dawdle(place: str) -> None:
    def write(part: Path) -> None:
        part.write_text("half")
        time.sleep(600)

    write_atomically(Path(place), write)


def seen_gpu(_: int) -> tuple[str | None, str | None]:
    time.sleep(1.0)  # so that both workers have something to do
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("RESIDUA_PROCESSES")
