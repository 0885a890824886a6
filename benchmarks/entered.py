"""Functions of the package that one audit enters, and their files.

    python benchmarks/entered.py [WORD OF residua audit ...]

Small networks on embedded images, fitted in this process; every module is imported first, so that what runs at import
does not count, nor do lambdas and comprehensions. Three rows: `rs.audit`, with `Audit.save` and its page, and
`residua audit`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import residua as rs
from residua.cli import main as command
from residua.measure._memo import clear_all

SOURCE, OPTIMISED = (str(Path(rs.__file__).parent), 1)  # the flag tells functions from bodies of classes and modules
NAMES = ("original", "unlearned", "reference")
DATA = "fashion-sample?part=0.05"


@contextlib.contextmanager
def profiled(entered: set[CodeType]) -> Iterator[None]:
    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        named = code.co_flags & OPTIMISED and not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(SOURCE) and code.co_filename.endswith(".py"):
            entered.add(code)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def show(what: str, entered: set[CodeType]) -> None:
    print(f"{what}: {len(entered)} functions in {len({code.co_filename for code in entered})} files")


def main(words: list[str]) -> int:
    os.environ["RESIDUA_PROCESSES"] = "1"
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(rs.__path__, "residua."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed, name in enumerate(NAMES):
            torch.manual_seed(seed)
            rs.save(rs.models.resnet18(width=1, channels=1), f"{name}.safetensors")
        original, unlearned, reference = (rs.load(f"{name}.safetensors") for name in NAMES)
        task = rs.forget_classes(rs.data.open_dataset(DATA), [6])
        entered: set[CodeType] = set()
        with profiled(entered):
            audit = rs.audit(original=original, unlearned=unlearned, reference=[reference], task=task)
        show("rs.audit", entered)
        with profiled(entered):
            audit.save("audit")
        show("rs.audit and Audit.save", entered)
        files = [word for name in NAMES for word in (f"--{name}", f"{name}.safetensors")]
        clear_all()  # or the command would find the passes of the first audit
        entered = set()
        with profiled(entered):
            command(["audit", *files, "--data", DATA, "--forget", "class:6", "--out", "command", *words])
        show("residua audit", entered)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
