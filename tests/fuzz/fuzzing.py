"""One mutated input, one child process, one result."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox import MOST_BYTES, MOST_SECONDS, Run, Sandbox
from targets import TARGETS


@dataclass(frozen=True)
class Result:
    """The fate of an input: `read`, `refused`, or a finding in words."""

    outcome: str
    seconds: float
    peak: int
    crashed: bool = False  # a child that decodes, which is refused like any other file

    @property
    def good(self) -> bool:
        return self.outcome in ("read", "refused")


def try_input(sandbox: Sandbox, name: str, number: int, folder: Path) -> Result:
    """Have the target read input `number`, which is written to `folder`."""
    target = TARGETS[name]
    shutil.rmtree(folder, ignore_errors=True)
    for file, content in target.mutated(number).items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    canary = folder.parent / "canary"
    canary.mkdir(exist_ok=True)
    for ending in ("", ".json", ".npz", ".safetensors"):
        (canary / f"mine{ending}").write_text("precious")
    before = snapshot(folder), snapshot(canary)
    run = sandbox.call(f"targets:{target.read}", folder, folder=folder)
    return Result(
        _outcome(run, before == (snapshot(folder), snapshot(canary))), run.seconds, run.peak, "decoder crash" in run.err
    )


def snapshot(folder: Path) -> list[tuple[str, int, int]]:
    """Every entry of a folder, with its size and when it was written."""
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


def _outcome(run: Run, same_files: bool) -> str:
    if run.code not in (0, 3):
        if run.code == -9:
            return "hangs, or was killed"
        last = [line for line in run.err.splitlines() if line.strip()][-1:]
        return f"exit code {run.code}: {' '.join(last)[:300]}"
    if run.seconds > MOST_SECONDS:
        return f"took {run.seconds:.1f} s of processor time"
    if run.peak > MOST_BYTES:
        return f"took {run.peak} bytes"
    if run.left or not same_files:
        return f"left or changed files: {run.left}"
    if run.code == 3 and len(run.err.splitlines()) != 1:
        return f"more than a sentence: {run.err[:300]!r}"
    if any(ord(c) < 32 and c not in "\n\t" for c in run.out):
        return "control characters on the screen"
    return "read" if run.code == 0 else "refused"
