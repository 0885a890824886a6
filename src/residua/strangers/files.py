"""What a stranger's file holds, read and never run."""

from __future__ import annotations

import contextlib
import json
import mmap
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from residua.checkpoint import KEY
from residua.errors import InputError
from residua.strangers.building import importable_here, in_short

Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")


def is_safetensors(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return True
    with path.open("rb") as file:
        head = file.read(9)
    return path.suffix not in (".pt", ".pth") and head[8:] == b"{"


def network_named_in(path: Path) -> str | None:
    """The network whose name a safetensors file bears, if it bears one."""
    with _readable(path), safe_open(path, framework="pt") as file:
        try:
            name = json.loads((file.metadata() or {}).get(KEY, "{}")).get("network")
        except (ValueError, RecursionError, AttributeError):
            return None
    return name if isinstance(name, str) else None


def from_safetensors(path: Path) -> Weights:
    with _readable(path), safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} is not a readable safetensors file ({error}); save the weights as safetensors"
        ) from error


def from_pickle(path: Path, trust: bool) -> Weights | nn.Module:
    """What `torch.save` wrote, opened as weights alone unless its maker is trusted."""
    zipped = zipfile.is_zipfile(path)
    if not trust:
        _check_size(path, zipped)
    try:
        with warnings.catch_warnings(), importable_here() if trust else contextlib.nullcontext():
            warnings.simplefilter("ignore")
            # Mapped, not read: a storage cannot be larger than what lies in the file.
            found = torch.load(path, map_location="cpu", weights_only=not trust, mmap=zipped and not trust)
    except Exception as error:  # a damaged pickle can raise anything
        if trust or not isinstance(error, pickle.UnpicklingError):
            raise InputError(
                f"checkpoint {path} is not a readable PyTorch file ({in_short(error)}); save the weights as safetensors"
            ) from error
        wanted = re.search(r"GLOBAL ([\w.]+)|Unsupported class ([\w.]+)", str(error))
        what = (
            f"holds more than weights ({wanted[1] or wanted[2]})"
            if wanted
            else "is damaged or holds more than weights"
        )
        raise InputError(
            f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
            "or pass --trust if you trust its maker with everything"
        ) from error
    return _state_dict(path, found)


def _check_size(path: Path, zipped: bool) -> None:
    """Refuse what is small on disk and large in memory, before it is opened."""
    if not zipped:
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise InputError(f"checkpoint {path} is empty; give the file that holds the weights")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                _check_pickle(path, raw)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            packed = [m for m in members if m.compress_type != zipfile.ZIP_STORED]
            if packed or sum(m.file_size for m in members) > path.stat().st_size:
                raise InputError(
                    f"checkpoint {path} would unpack into {sum(m.file_size for m in members)} bytes, more than it has on "
                    "disk, which torch.save never writes; save it again with torch.save"
                )
            for member in members:
                if member.filename.endswith(".pkl"):
                    _check_pickle(path, archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} is a damaged archive ({error}); save the weights as safetensors"
        ) from error


def _check_pickle(path: Path, raw: bytes | mmap.mmap) -> None:
    # The one thing that weights_only allows and that fills memory from a number in the file.
    if raw.find(b"bytearray") >= 0:
        raise InputError(f"checkpoint {path} holds a bytearray, expected weights; save state_dict() alone")


def _state_dict(path: Path, found: Any) -> Weights | nn.Module:
    """The weights in it, which may lie under `state_dict` or `model` beside other things."""
    for _ in range(3):
        if isinstance(found, nn.Module):
            return found
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(v, Tensor) and isinstance(k, str) for k, v in found.items()):
            return dict(found)
        found = next((found[k] for k in NESTED if isinstance(found.get(k), Mapping | nn.Module)), None)
    raise InputError(
        f"checkpoint {path} holds no weights by name, also not under {', '.join(NESTED)}; save state_dict() alone"
    )
