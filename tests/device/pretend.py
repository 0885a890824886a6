"""A pretend GPU: tensors that say `cuda:N`, hold real numbers in ordinary memory, and refuse to be mixed with others.

Inside `pretend()`, `torch.cuda.is_available()` is true and `.to("cuda")` works. Real numbers are computed, so control
flow that depends on them runs, which `FakeTensorMode` cannot do. Enforced is what a CUDA build enforces:

- one operation, one device (tensors without dimensions and CPU indices of a GPU's tensor are allowed);
- no `.numpy()` and no pickling of a GPU's tensor (PyTorch would pickle it; here nothing may send one to a process);
- no draw on a GPU from a CPU generator;
- no CUDA in a forked process, once its parent has used it;
- with `mps=True`, as on Apple's GPUs, no float64.

The `Log` counts what costs time on a GPU by the line of the package that caused it: waits for the device, and copies to
it and from it. To PyTorch's own C++ code these tensors are on the CPU, so autograd needs no driver.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # now: it looks at functions that are replaced below
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
COPIES = {aten.copy_.default, aten._to_copy.default}
INDEXING = {
    aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten.index_put_.default,
    aten._index_put_impl_.default,
}  # fmt: skip
WAITS = {
    aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten._unique2.default,
    aten.equal.default,
}  # fmt: skip


@dataclass
class Log:
    """Waits for the device and copies, by line of the package (`training/loop.py:212`)."""

    waits: Counter[str] = field(default_factory=Counter)
    up: Counter[str] = field(default_factory=Counter)
    down: Counter[str] = field(default_factory=Counter)

    def total(self, kind: str, place: str = "") -> int:
        """Events of this kind in files whose path holds `place`."""
        return sum(count for where, count in getattr(self, kind).items() if place in where)


def line() -> str:
    """The innermost line of the package on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        _, inside, name = frame.f_code.co_filename.rpartition("/residua/")
        if inside:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


@dataclass
class _State:
    log: Log
    mps: bool
    draws: torch.Tensor  # state of the device's generator
    process: int = field(default_factory=os.getpid)
    used: bool = False

    def use(self) -> None:
        if self.used and os.getpid() != self.process:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        self.used = True


_states: list[_State] = []
_calls: list[Any] = []  # functions of PyTorch that Python is in
_leaving: list[bool] = []  # not empty while a tensor is asked to leave the device


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in what an operation is given."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


def _changed(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Arguments or results of an operation, with every tensor of this kind changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)([_changed(each, kind, change) for each in value])
    if isinstance(value, dict):
        return {name: _changed(each, kind, change) for name, each in value.items()}
    return value


def _device(value: Any) -> torch.device:
    device = torch.device(f"cuda:{value}" if isinstance(value, int) else value)
    return torch.device("cuda:0") if device.type == "cuda" and device.index is None else device


def _asked_of_to(args: Any, kwargs: dict[str, Any]) -> tuple[torch.device | None, dict[str, Any], bool]:
    """Device, type and layout, and copy, of a call of `Tensor.to`."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for value in (*args, kwargs.get("other")):
        if isinstance(value, torch.Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, str | torch.device):
            device = value
    form = {"dtype": dtype, "memory_format": kwargs.get("memory_format")}
    return None if device is None else _device(device), form, bool(kwargs.get("copy"))


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU; its numbers are in `held`."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: self.place)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    @staticmethod
    def __new__(cls, held: torch.Tensor, place: torch.device) -> OnGpu:
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device="cpu",
        )  # fmt: skip
        made.held, made.place = held, place
        return made

    def __repr__(self) -> str:
        return f"OnGpu({self.held!r}, {self.place})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})

    def to(self, *args: Any, **kwargs: Any) -> Any:
        device, form, copy = _asked_of_to(args, kwargs)
        if device is not None and device.type == "cpu":
            _leaving.append(True)
            try:
                return aten._to_copy.default(self, device="cpu", **form)
            finally:
                _leaving.pop()
        if device is not None and device != self.place:
            return OnGpu(self.held.detach().to(form["dtype"] or self.dtype, copy=True), device)
        layout = form["memory_format"]
        laid_out = layout in (None, torch.preserve_format) or self.is_contiguous(memory_format=layout)
        if not copy and form["dtype"] in (None, self.dtype) and laid_out:
            return self
        return aten._to_copy.default(self, **form)

    def cpu(self, memory_format: Any = torch.preserve_format) -> Any:
        return self.to("cpu", memory_format=memory_format)

    def type_as(self, other: torch.Tensor) -> Any:
        return self.to(other)

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"can't convert {self.place} device type tensor to numpy (at {line()})")

    __array__ = numpy

    def tolist(self) -> Any:
        _states[-1].log.waits[line()] += 1
        return self.held.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made = OnGpu(self.held.detach().clone(), self.place).requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                made._is_param = True
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(f"a tensor on {self.place} is pickled (at {line()})")

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, OnGpu):
            raise RuntimeError(f"a tensor of the CPU is written into one on {self.place} (at {line()})")
        torch.Tensor.data.__set__(self, value)
        self.held = value.held


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    state = _states[-1]
    tensors = list(_tensors((args, kwargs)))
    ours = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    target = None if kwargs.get("device") is None else _device(kwargs["device"])
    if ours and not _leaving and (target is None or target.type == "cpu"):
        # C++ fills in the device of a tensor that it takes for one of the CPU.
        target = ours[0].place if target or func is aten._to_copy.default else None
    if not ours and (target is None or target.type != "cuda"):
        return _on_cpu(func, args, kwargs, tensors)
    if func is aten._fused_sdp_choice.default:
        return 0
    state.use()
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError(f"Expected a 'cuda' generator but found 'cpu' (at {line()})")
    if ours and func not in COPIES:
        _refuse_mixture(func, args, tensors, ours)
    leaves = bool(ours) and target is not None and target.type == "cpu"
    _count(func, args, bool(ours), leaves, state.log)
    inner_args, inner_kwargs = _changed((args, kwargs), OnGpu, lambda t: t.held)
    if target is not None:
        inner_kwargs = {k: v for k, v in inner_kwargs.items() if k != "pin_memory"}
        inner_kwargs["device"] = "cpu" if target.type == "cuda" else target
    seeded = torch.Tag.nondeterministic_seeded in func.tags
    with _device_draws(state) if seeded else contextlib.nullcontext():
        out = func(*inner_args, **inner_kwargs)
    if leaves:
        return out
    home = target if target is not None and target.type == "cuda" else ours[0].place if ours else target
    return _changed(out, torch.Tensor, lambda t: _wrapped(t, func, args, ours, home, state))


def _on_cpu(func: Any, args: Any, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Any:
    """A call without a GPU's tensor. What C++ makes on the way, on the device of an `OnGpu`, may be mixed with it."""
    out = func(*args, **kwargs)
    name = getattr(_calls[-1], "__name__", "") if _calls else ""
    asked_for = (func._schema.name.partition("::")[2], "tensor", "as_tensor", "from_numpy", "randint", "arange")
    inside = (
        all(getattr(t, "made_inside", False) for t in tensors) if tensors else bool(_calls) and name not in asked_for
    )
    if inside and isinstance(out, torch.Tensor):
        out.made_inside = True
    return out


def _refuse_mixture(func: Any, args: Any, tensors: list[torch.Tensor], ours: list[OnGpu]) -> None:
    others = [
        t for t in tensors
        if not isinstance(t, OnGpu) and t.dim() and t.device.type != "meta" and not getattr(t, "made_inside", False)
    ]  # fmt: skip
    if func in INDEXING and isinstance(args[0], OnGpu):  # CPU indices are copied to the device
        indices = {id(t) for t in _tensors(args[1])}
        _states[-1].log.up[line()] += sum(id(t) in indices for t in others)
        others = [t for t in others if id(t) not in indices]
    found = {t.place for t in ours} | {t.device for t in others}
    if len(found) > 1:
        shapes = [(tuple(t.shape), str(t.device)) for t in tensors]
        raise RuntimeError(f"Expected all tensors to be on the same device: {shapes} in {func} (at {line()})")


def _count(func: Any, args: Any, ours: bool, leaves: bool, log: Log) -> None:
    if func in WAITS:
        log.waits[line()] += 1
    if func is aten.copy_.default and isinstance(args[0], OnGpu) != isinstance(args[1], OnGpu):
        (log.up if isinstance(args[0], OnGpu) else log.down)[line()] += 1
    if func is aten._to_copy.default and (leaves or not ours):
        (log.down if leaves else log.up)[line()] += 1


@contextlib.contextmanager
def _device_draws(state: _State) -> Iterator[None]:
    """Draws in the body come from the device's generator."""
    host = torch.get_rng_state()
    torch.set_rng_state(state.draws)
    try:
        yield
    finally:
        state.draws = torch.get_rng_state()
        torch.set_rng_state(host)


def _wrapped(t: Any, func: Any, args: Any, ours: list[OnGpu], home: Any, state: _State) -> Any:
    if isinstance(t, OnGpu) or t.device.type == "meta":
        return t
    for each in ours:  # an operation in place
        if each.held is t:
            return each
    if func is aten.copy_.default:  # into a tensor of the CPU
        return args[0]
    if state.mps and t.dtype is torch.float64:
        raise TypeError(f"Cannot convert a MPS Tensor to float64 dtype (at {line()})")
    if getattr(func, "is_view", False) and not any(each.is_inference() for each in ours):
        with torch.inference_mode(False):  # a view of an ordinary tensor is one, also in inference mode
            return OnGpu(t, home)
    return OnGpu(t, home)


class _Functions(TorchFunctionMode):
    """`cuda` means `cuda:0`, and tensors that go to a device become `OnGpu`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.to, torch.Tensor.type_as) and not isinstance(args[0], OnGpu):
            device, form, _ = _asked_of_to(args[1:], kwargs)
            if device is not None and device.type == "cuda":
                return aten._to_copy.default(args[0], device=device, **form)
        if func is torch.Tensor.cuda:
            return args[0].to("cuda:0")
        if kwargs.get("device") is not None:
            kwargs = dict(kwargs, device=_device(kwargs["device"]))
        _calls.append(func)
        try:
            return func(*args, **kwargs)
        finally:
            _calls.pop()


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


_autocast, _compatible = torch.autocast, torch._has_compatible_shallow_copy_type


@contextlib.contextmanager
def pretend(*, gpus: int = 2, mps: bool = False, major: int = 8, memory: int = 24 << 30) -> Iterator[Log]:
    """GPUs of compute capability `major` with `memory` bytes each, for the body; the log of what it did."""
    state = _State(Log(), mps, torch.Generator().manual_seed(1).get_state())

    def rng_states() -> list[torch.Tensor]:
        state.use()
        return [state.draws.clone() for _ in range(gpus)]

    def set_rng_states(states: list[torch.Tensor]) -> None:
        state.use()
        state.draws = states[0].clone()

    def manual_seed_all(number: int) -> None:
        state.draws = torch.Generator().manual_seed(int(number) & (2**63 - 1)).get_state()

    cuda = {
        "is_available": lambda: True,
        "is_initialized": lambda: state.used and os.getpid() == state.process,
        "_lazy_init": state.use,
        "device_count": lambda: gpus,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: "Pretend GPU",
        "get_device_properties": lambda device=None: mock.Mock(major=major, minor=0, total_memory=memory),
        "is_bf16_supported": lambda including_emulation=True: major >= 8 or including_emulation,
        "mem_get_info": lambda device=None: (memory, memory),
        "get_rng_state_all": rng_states,
        "set_rng_state_all": set_rng_states,
        "get_rng_state": lambda device=0: rng_states()[0],
        "set_rng_state": lambda value, device=0: set_rng_states([value]),
        "manual_seed_all": manual_seed_all,
        "synchronize": lambda device=None: state.log.waits.update({line(): 1}),
    }
    lifts = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") goes through the mode
    _states.append(state)
    try:
        with contextlib.ExitStack() as stack:
            for name, function in cuda.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, function))
            on_cpu = mock.patch.object(
                torch, "autocast", lambda kind, *a, **k: _autocast("cpu" if kind == "cuda" else kind, *a, **k)
            )
            stack.enter_context(on_cpu)
            # `module.to` must not write a GPU's tensor into the object of one of the CPU.
            kinds = mock.patch.object(
                torch, "_has_compatible_shallow_copy_type",
                lambda a, b: isinstance(a, OnGpu) == isinstance(b, OnGpu) and _compatible(a, b),
            )  # fmt: skip
            stack.enter_context(kinds)
            # The package keeps some networks away from oneDNN on a CPU (`safe_kernels`), and takes this for a GPU.
            before, *_ = torch.backends.mkldnn.set_flags(False, None, None, None)
            stack.callback(torch.backends.mkldnn.set_flags, before, None, None, None)
            stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", lambda self, device=None: self))
            stack.enter_context(_Operations())
            stack.enter_context(_Functions())
            yield state.log
    finally:
        torch._C._set_only_lift_cpu_tensors(lifts)
        _states.pop()
