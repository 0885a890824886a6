"""What this machine does well: the precision that pays, and memory that is not given back too early."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from residua.errors import InputError

Precision = Literal["auto", "float32", "bfloat16"]


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """The number format of matrix products and convolutions on this device.

    `auto` takes bfloat16 where it pays: on GPUs that have it, and on processors whose matrix
    unit (AMX) works. On the AVX-512 processor without it that was tried, bfloat16 was slower. The
    rule asks what the machine is, never how fast it was just now: same machine, same numbers.
    """
    if precision not in ("auto", "float32", "bfloat16"):
        raise InputError(f"precision {precision!r} is unknown; choose auto, float32 or bfloat16")
    if precision == "float32":
        return torch.float32
    if device.type == "cuda":
        pays = torch.cuda.is_bf16_supported()
        if precision == "bfloat16" and not pays:
            raise InputError("precision bfloat16 was asked for, but this GPU lacks it; use float32")
        return torch.bfloat16 if pays else torch.float32
    if device.type == "cpu":
        if precision == "auto":
            return torch.bfloat16 if _has_amx() and _bfloat16_runs() else torch.float32
        if not _bfloat16_runs():
            raise InputError(
                "precision bfloat16 was asked for, but this machine announces AMX and then refuses it; "
                "use float32, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment"
            )
        return torch.bfloat16
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


@contextlib.contextmanager
def autocast(precision: Precision, device: torch.device) -> Iterator[None]:
    """Run the body in the resolved precision; weights stay float32."""
    dtype = resolve_precision(precision, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
        yield


def _has_amx() -> bool:
    return "AMX" in os.environ.get("ONEDNN_MAX_CPU_ISA", "AMX") and _announces_amx()


@cache
def _announces_amx() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "amx_bf16" in cpuinfo.read_text()


@cache
def _bfloat16_runs() -> bool:
    """Some virtual machines announce AMX and kill the process that uses it; a child finds out."""
    product = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
    return (
        not _has_amx() or subprocess.run([sys.executable, "-c", product], capture_output=True).returncode == 0
    )


@cache
def keep_memory() -> None:
    """Let the C library reuse the memory of activations instead of returning it at every step.

    Each return costs a page fault for every 4 KiB at the next step, some twenty thousand a step for a
    narrow ResNet-18. glibc only; elsewhere this does nothing.
    """
    mmap_threshold, trim_threshold = -3, -1
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 1 << 25)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def memory_budget() -> int:
    """A quarter of the memory that this process may use, in bytes: the machine's, or its container's."""
    limits = [16 << 30]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits) // 4
