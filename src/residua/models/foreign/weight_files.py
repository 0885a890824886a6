"""The weights in a third party's checkpoint, read and never run.

`torch.load(weights_only=True)` runs no code of the file's, but some functions that it allows make much out of little:
`bytearray(n)`, or `_codecs.encode` nested in itself. A file of weights needs none of them, so before PyTorch opens it,
names are checked against those that it does need, and steps are counted.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from residua.errors import InputError, first_line, printable
from residua.files import reading
from residua.limits import check
from residua.models.checkpoint import Checkpoint
from residua.models.foreign.building import importable_here, in_short

Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")


def weights_in(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The weights in a file of either kind, or the module in a pickle whose maker is trusted."""
    with reading(checkpoint.path):
        if checkpoint.kind == "safetensors":
            return checkpoint.tensors()
        return _from_pickle(checkpoint, trust)


def _from_pickle(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The contents of a file by `torch.save`, opened as weights alone unless its maker is trusted."""
    path = checkpoint.path
    zipped = _is_zip(checkpoint.raw)
    if not trust:
        _check_size(path, checkpoint.raw, zipped)
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
        raise _more_than_weights(path, wanted and (wanted[1] or wanted[2])) from error
    return _state_dict(path, found)


def _is_zip(raw: bytes) -> bool:
    try:
        return zipfile.is_zipfile(io.BytesIO(raw))
    except zipfile.BadZipFile:  # it is one, of a kind that cannot be read
        return True


def _check_size(path: Path, raw: bytes, zipped: bool) -> None:
    """Refuse a file that is small on disk and large in memory, before it is opened."""
    if not raw:
        raise InputError(f"checkpoint {path} is empty; give the file that holds the weights")
    if not zipped:
        _check_legacy_pickles(path, io.BytesIO(raw))
        return
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            _check_archive(path, archive, len(raw))
    except InputError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
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
            _check(path, io.BytesIO(archive.read(member)))


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


# Names from which tensors, parameters and the settings beside them are rebuilt. Storages are named by their type of number.
ALLOWED = re.compile(
    r"""collections\.(OrderedDict|defaultdict|Counter)
    |torch\.(Size|device|Tensor|[A-Za-z0-9]+Storage|storage\.(Untyped|Typed|_Legacy)?Storage)
    |torch\.(bool|complex\d+|b?float[\d_a-z]+|q?u?int\d+(x\d)?|double|half|long|int|short)
    |torch\.nn\.parameter\.(Parameter|Buffer|UninitializedParameter)
    |torch\._utils\._rebuild_(tensor(_v2|_v3)?|parameter(_with_state)?|qtensor|sparse_tensor|meta_tensor_no_storage)
    |torch\._tensor\._rebuild_from_type_v2
    |torch\.serialization\._get_layout
    |torch\._C\._(disabled_torch_function_impl|nn\.\w+)
    |(builtins|__builtin__)\.(set|frozenset|complex)
    """,
    re.VERBOSE,
)
# Names that take the stack's word for what they are; PyTorch's own loader does not know them either.
UNNAMED = ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4")
# A number that says what the file is; version, machine, contents and names of the storages follow.
LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
PICKLES_OF_LEGACY = 4


def _check_legacy_pickles(path: Path, file: IO[bytes]) -> None:
    """Refuse such pickles in a file from before the zip archives: several in a row, and then the numbers."""
    begins = file.read(len(LEGACY))
    if begins != LEGACY:
        file.seek(0)
        _check(path, file)
        raise _unreadable(path, "it does not begin like one")
    steps = 0
    for _ in range(PICKLES_OF_LEGACY):
        steps = _check(path, file, steps)


def _check(path: Path, file: IO[bytes], steps: int = 0) -> int:
    """Check one pickle, all of which must be readable as one; the number of steps so far."""
    names: set[str | None] = set()
    try:
        for operation, argument, _ in pickletools.genops(file):
            steps += 1
            check(f"checkpoint {path}", "steps", steps)
            if operation.name == "GLOBAL":
                names.add(".".join(str(argument).split(" ", 1)))
            elif operation.name in UNNAMED:
                names.add(None)
    except InputError:
        raise
    except Exception as error:  # bytes that are not a pickle make its parser raise anything
        raise _unreadable(path, first_line(error)) from error
    for name in sorted(names, key=str):
        if name is None or not ALLOWED.fullmatch(name):
            raise _more_than_weights(path, name and printable(name, 80))
    return steps


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        f"checkpoint {path} is not a readable PyTorch file ({why}); save the weights as safetensors"
    )


def _more_than_weights(path: Path, name: str | None) -> InputError:
    what = f"holds more than weights ({name})" if name else "is damaged or holds more than weights"
    return InputError(
        f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
        "or pass --trust if you trust its maker with everything"
    )
