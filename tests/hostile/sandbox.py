"""Runs commands, or readers, on hostile files in child processes: what they cost and leave is measured.

One process imports everything once and then forks a child for each run, so that a run costs milliseconds and not the
seconds of `import torch`. It computes nothing itself, hence has no threads that a fork would lose.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MEGABYTE = 1 << 20
# What every refusal must stay below.
MOST_SECONDS, MOST_BYTES = 10.0, 1 << 30
# What takes longer than this by the clock hangs, also where the machine is busy.
PATIENCE = 120.0


@dataclass(frozen=True)
class Run:
    """The end of a run: exit code (negative: the signal), cost, text, and temporary files that it left."""

    code: int
    seconds: float  # of processor time: the clock's depend on what else the machine does
    peak: int  # bytes of resident memory, at most, the imported libraries included
    out: str
    err: str
    left: list[str]


class Sandbox:
    """A context in which `run` runs `residua ARGUMENTS` and `call` a function of a module beside the tests."""

    def __enter__(self) -> Sandbox:
        self._scratch = Path(tempfile.mkdtemp(prefix="sandbox-"))
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._server = subprocess.Popen(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **one_thread, "COLUMNS": "200"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()  # type: ignore[union-attr]
        self._server.wait()
        self._server.stdout.close()  # type: ignore[union-attr]
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, *arguments: object, folder: Path, seconds: float = PATIENCE, **environment: str) -> Run:
        return self._ask({"arguments": [str(word) for word in arguments], "environment": environment}, folder, seconds)

    def call(self, function: str, *arguments: object, folder: Path, seconds: float = PATIENCE) -> Run:
        """`function` is "module:name"; it returns an exit code, or None; InputError is 3, any other exception 70."""
        words = [str(word) if isinstance(word, Path) else word for word in arguments]
        return self._ask({"call": function, "arguments": words, "environment": {}}, folder, seconds)

    def _ask(self, request: dict[str, Any], folder: Path, seconds: float) -> Run:
        temporary = self._scratch / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        request["environment"]["TMPDIR"] = str(temporary)
        request |= {"folder": str(folder), "seconds": seconds, "scratch": str(self._scratch)}
        self._server.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        self._server.stdin.flush()  # type: ignore[union-attr]
        answer = json.loads(self._server.stdout.readline())  # type: ignore[union-attr]
        texts = [(self._scratch / name).read_text("utf-8", "replace") for name in ("out", "err")]
        left = sorted(p.name for p in temporary.iterdir())
        return Run(**answer, out=texts[0], err=texts[1], left=left)


def serve() -> None:
    """Answer each line of standard input, a request, with a line on standard output."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz")]
    for module in ("residua.cli", "pyarrow.parquet", "PIL.Image"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    import torch

    import residua as rs

    with torch.device("meta"):  # what PyTorch imports late
        rs.models.resnet18(classes=2, channels=1, width=1)
    importlib.import_module("targets")
    gc.freeze()  # a child that collects would copy every page
    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)  # noqa: T201


def _forked(request: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            code = _do(request)
        os._exit(code)
    end = time.monotonic() + request["seconds"]
    done, status, used = os.wait4(child, os.WNOHANG)
    while not done and time.monotonic() < end:
        time.sleep(0.002)
        done, status, used = os.wait4(child, os.WNOHANG)
    if not done:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "seconds": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * 1024}


def _do(request: dict[str, Any]) -> int:
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on, not that of the imports
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A reader that believes a file fails here, and not the machine that runs the tests.
    resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    os.chdir(request["folder"])
    for number, name in ((1, "out"), (2, "err")):
        handle = os.open(Path(request["scratch"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(os.dup(n), "wb"), "utf-8", "backslashreplace") for n in (1, 2))
    try:
        return _called(request) if "call" in request else _command(request["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _command(arguments: list[str]) -> int:
    from residua.cli import main

    return main(arguments)


def _called(request: dict[str, Any]) -> int:
    import traceback

    from residua.errors import InputError

    module, _, name = request["call"].partition(":")
    try:
        code = getattr(importlib.import_module(module), name)(*request["arguments"])
    except InputError as error:
        sys.stderr.write(f"residua: {error}\n")
        return InputError.exit_code
    except Exception:
        traceback.print_exc()
        return 70
    return code or 0


if __name__ == "__main__":
    serve()
