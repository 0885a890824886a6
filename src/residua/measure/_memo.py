"""Memo: what was computed of a model before, found again by content and never by name."""

from __future__ import annotations

import hashlib
import types
import weakref
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import torch
from torch import nn

Value = TypeVar("Value")

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.memory_format)

# Attributes of a module that its outputs in eval mode do not depend on, or that are looked at elsewhere.
NO_PART_OF_IT = ("training", "residua_frozen", "residua_draws", "residua_start", "_parameters", "_buffers", "_modules")


class Memo(Generic[Value]):
    """The last few values by key, at most `entries` of them and `size` bytes together."""

    def __init__(self, entries: int, size: int) -> None:
        self.entries, self.size = entries, size
        self._kept: dict[Hashable, tuple[Value, int]] = {}
        _all.add(self)

    def get(self, key: Hashable | None) -> Value | None:
        if key is None or key not in self._kept:
            return None
        self._kept[key] = self._kept.pop(key)  # used last, dropped last
        return self._kept[key][0]

    def put(self, key: Hashable | None, value: Value, size: int) -> None:
        """Keep `value`, which takes `size` bytes; the longest unused make room. No key, no keeping."""
        if key is None or size > self.size:
            return
        self._kept.pop(key, None)
        self._kept[key] = (value, size)
        while len(self._kept) > self.entries or sum(size for _, size in self._kept.values()) > self.size:
            self._kept.pop(next(iter(self._kept)))

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


_all: weakref.WeakSet[Memo] = weakref.WeakSet()


def clear_all() -> None:
    """Forget all passes: the next ones are computed, not found."""
    for memo in _all:
        memo.clear()


def identity(model: nn.Module, *, layout: bool = True) -> Hashable | None:
    """Everything on which the model's outputs in eval mode depend: equal for equal functions only.

    Each module's class, its plain attributes and its tensors, buffers that are not saved included. A
    model changed in place, in weights or in settings, has another identity. None where a module holds
    something whose content cannot be described, or a hook: such a model is never remembered. The `layout` of the
    tensors decides which kernels run, and so the last digits; without it, equal values are enough.
    """
    parts: list[Hashable] = []
    for name, module in model.named_modules(remove_duplicate=False):
        settings: list[Hashable] = []
        for own, value in sorted(vars(module).items()):
            if own in NO_PART_OF_IT:
                continue
            hooked = "hook" in own and value and not isinstance(value, bool)
            content = None if hooked else _content(value)
            if content is None:
                return None
            settings.append((own, content))
        parts.append((name, type(module), tuple(settings)))
    sha = hashlib.sha256()
    tensors = []
    for kind in (model.named_parameters, model.named_buffers):
        for name, tensor in kind(remove_duplicate=False):
            strides = tensor.stride() if layout else ""
            sha.update(f"{name} {tuple(tensor.shape)} {strides} {tensor.dtype}\n".encode())
            tensors.append(tensor.detach().contiguous().reshape(-1).view(torch.uint8))
    # From a GPU all at once: each copy waits for it.
    joined = [torch.cat(tensors)] if tensors and tensors[0].device.type != "cpu" else tensors
    for each in joined:
        sha.update(each.cpu().numpy().data)
    return tuple(parts), sha.hexdigest()


def _content(value: Any) -> Hashable | None:
    """The value as something that is equal only where the value is; None if it cannot be described."""
    if isinstance(value, PLAIN):
        return type(value), value
    if isinstance(value, types.BuiltinFunctionType | type):
        return (value,)
    if isinstance(value, types.FunctionType):
        return None if value.__closure__ else (value,)
    if isinstance(value, dict):
        value = list(value.items())
    elif isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    elif not isinstance(value, tuple | list):
        return None
    inside = tuple(_content(item) for item in value)
    return None if None in inside else inside
