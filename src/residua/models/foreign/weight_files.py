"""What a third party's checkpoint holds, read and never run."""

from __future__ import annotations

import contextlib
import json
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

from residua.errors import InputError, first_line
from residua.files import open_regular
from residua.limits import check
from residua.models.checkpoint import KEY, safetensors_file
from residua.models.foreign.own_code import importable_here, in_short
from residua.models.foreign.pickle_checks import check_legacy_pickles, check_zipped_pickle

Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")


def is_safetensors(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return True
    with open_regular(path) as file:
        head = file.read(9)
    return path.suffix not in (".pt", ".pth") and head[8:] == b"{"


def network_named_in(path: Path) -> str | None:
    """The network whose name a safetensors file bears, if it bears one."""
    with _readable(path), safe_open(safetensors_file(path), framework="pt") as file:
        try:
            name = json.loads((file.metadata() or {}).get(KEY, "{}")).get("network")
        except (ValueError, RecursionError, AttributeError):
            return None
    return name if isinstance(name, str) else None


def from_safetensors(path: Path) -> Weights:
    with _readable(path), safe_open(safetensors_file(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} is not a readable safetensors file ({first_line(error)}); save the weights as safetensors"
        ) from error


def from_pickle(path: Path, trust: bool) -> Weights | nn.Module:
    """What `torch.save` wrote, opened as weights alone unless its maker is trusted."""
    zipped = _is_zip(path)
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


def _is_zip(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # it is one, of a kind that cannot be read
        return True


def _check_size(path: Path, zipped: bool) -> None:
    """Refuse what is small on disk and large in memory, before it is opened."""
    with open_regular(path) as file:
        on_disk = file.seek(0, 2)
        file.seek(0)
        if not on_disk:
            raise InputError(f"checkpoint {path} is empty; give the file that holds the weights")
        check(path, "memory", on_disk)
        if not zipped:
            check_legacy_pickles(path, file)
            return
        try:
            with zipfile.ZipFile(file) as archive:
                _check_archive(path, archive, on_disk)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            OSError,
            EOFError,
            ValueError,
        ) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"checkpoint {path} is a damaged archive ({first_line(error)}); save the weights as safetensors"
            ) from error


def _check_archive(path: Path, archive: zipfile.ZipFile, on_disk: int) -> None:
    members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    packed = [member for member in members if member.compress_type != zipfile.ZIP_STORED]
    if packed or unpacked > on_disk:
        raise InputError(
            f"checkpoint {path} would unpack into {unpacked} bytes, more than it has on "
            "disk, which torch.save never writes; save it again with torch.save"
        )
    for member in members:
        if member.filename.endswith(".pkl"):
            check_zipped_pickle(path, archive.read(member))


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
