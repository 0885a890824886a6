"""Device: numerical precision, safe kernels, memory and threads of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from residua.errors import InputError

if TYPE_CHECKING:  # the lowest layer is imported by code that only does arithmetic
    import torch

# Input channels from which oneDNN's gradient of a strided 1 x 1 convolution is right.
LEAST_CHANNELS = 8

Precision = Literal["auto", "float32", "bfloat16", "float16"]
# What `auto` means is decided by the machine, unless this variable of the environment says otherwise.
PRECISION = "RESIDUA_PRECISION"
KNOWN = "auto, float32, bfloat16 or float16"


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """The number format of matrix products and convolutions on this device.

    `auto` takes bfloat16 where it pays: on GPUs that have it (those that PyTorch would emulate it on, before Ampere, get
    float16, and trainings scale their losses), and on processors whose matrix unit (AMX) works. On the AVX-512 processor without bfloat16 that was tried it was slower; on one with it (AVX512_BF16)
    the tiny scale gained nothing and the small scale trained 1.6 times as fast, so there the caller decides
    (RESIDUA_PRECISION). The rule asks what the machine is, never how fast it was just now: same machine, same numbers.
    """
    import torch

    if precision == "auto":
        precision = chosen_precision()
    if precision not in get_args(Precision):
        raise InputError(f"precision {precision!r} is unknown; choose {KNOWN}")
    if precision == "float32":
        return torch.float32
    if device.type == "cuda":
        has_it = torch.cuda.is_bf16_supported(including_emulation=False)
        if precision == "bfloat16" and not has_it:
            raise InputError("precision bfloat16 was asked for, but this GPU lacks it; use float16 or float32")
        return torch.bfloat16 if has_it and precision != "float16" else torch.float16
    if precision == "float16":
        raise InputError(f"precision float16 was asked for, but {device.type} is no CUDA GPU; use float32")
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


def chosen_precision() -> Precision:
    """The precision that the environment chooses for `auto`; `auto` without a choice."""
    chosen = os.environ.get(PRECISION) or "auto"
    if chosen not in get_args(Precision):
        raise InputError(f"{PRECISION} is {chosen!r}, expected {KNOWN}; set or unset it")
    return cast(Precision, chosen)


@contextlib.contextmanager
def autocast(precision: Precision, device: torch.device) -> Iterator[None]:
    """Run the body in the resolved precision; weights stay float32."""
    import torch

    dtype = resolve_precision(precision, device)
    with exact_float32(dtype, device), torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
        yield


@contextlib.contextmanager
def exact_float32(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Compute float32 in float32: on CUDA, convolutions would otherwise be rounded to TF32, with 10 bits of 23.

    A backward pass belongs into the body too. With another `dtype`, or on another device, nothing is changed.
    """
    import torch

    if dtype is not torch.float32 or device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    kinds = [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds:
            kind.fp32_precision = "ieee"
        yield
    finally:
        for kind, value in zip(kinds, before, strict=True):
            kind.fp32_precision = value


def device_facts(device: torch.device) -> str:
    """The device and the number formats on it, for a reader."""
    import torch

    name = f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
    training = str(resolve_precision("auto", device)).removeprefix("torch.")
    return f"device {name}; {training} in trainings, float32 in readings"


def machine_load() -> float:
    """The machine's load: the mean number of processes that wanted a core in the last minute."""
    return os.getloadavg()[0]


def clock(device: torch.device | str) -> float:
    """Seconds of a clock that is read once the device has done all that it was asked for."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


def visible_gpus(count: int) -> list[str]:
    """Names of the first `count` GPUs of this process for CUDA_VISIBLE_DEVICES: numbers or UUIDs, as its caller named them."""
    given = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return [name for name in given if name][:count] or [str(number) for number in range(count)]


@contextlib.contextmanager
def safe_kernels(model: torch.nn.Module) -> Iterator[None]:
    """Compute gradients of `model` in this body: on a CPU some networks must avoid oneDNN.

    On processors without AVX-512, oneDNN's weight gradient of a strided 1 x 1 convolution with fewer than 8 input
    channels, in channels-last, writes past its workspace: a crash, or silently wrong gradients (uxlfoundation/oneDNN,
    issue 6035). The layout cannot be kept away from it, since with one channel both layouts have the same strides. So
    networks that hold such a convolution are computed without oneDNN, on every processor alike.
    """
    import torch

    if keeps_channels_last(model):
        yield
        return
    # Only this one flag: `mkldnn.flags` would also set those of Intel's GPUs, with a warning.
    before, *_ = torch.backends.mkldnn.set_flags(False, None, None, None)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before, None, None, None)


def keeps_channels_last(model: torch.nn.Module) -> bool:
    """True if training in channels-last is safe for this network on its device; see `safe_kernels`."""
    from torch import nn

    first = next(model.parameters(), None)
    if first is None or first.device.type != "cpu":
        return True
    return not any(
        isinstance(part, nn.Conv2d)
        and part.weight.shape[1] < LEAST_CHANNELS
        and tuple(part.weight.shape[2:]) == (1, 1)
        and max(part.stride) > 1
        for part in model.modules()
    )


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
    return not _has_amx() or subprocess.run(child_command(product), capture_output=True).returncode == 0


def child_command(code: str) -> list[str]:
    """The command that runs `code` in another Python, which imports from where this one does.

    `python -c` alone would look in the working directory first, and run whatever file there has the name of a
    module. Isolated mode does not; what it leaves out too, like PYTHONPATH, is handed on as this process has it.
    """
    here, home = os.path.realpath(os.curdir), str(Path(__file__).resolve().parents[1])
    path = [str(Path(place).absolute()) for place in sys.path if place and os.path.realpath(place) != here]
    path += [home]  # last: beside the package, in a working directory, may be anything
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {code}"]


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


def share_cores() -> None:
    """Let threads that wait for each other sleep after a moment; has to be called before PyTorch is imported.

    GNU OpenMP's threads spin for a long time by default. On a machine where others work too, the thread that
    the rest wait for may not be running while they spin in its place: a training step with two threads on two busy
    cores took 4,600 ms instead of 100. A variable that the user has set is left alone.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "2000"


def memory_budget(device: torch.device | None = None) -> int:
    """A quarter of the memory that this process may use, in bytes: the machine's, or its container's; of a GPU, half of
    what is free there."""
    if device is not None and device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0]) // 2
    limits = [16 << 30]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits) // 4
