"""What the pickle in a `torch.save` file may do, checked before PyTorch opens it.

`torch.load(weights_only=True)` runs no code of the file's, but some functions that it allows make much out of little:
`bytearray(n)`, or `_codecs.encode` nested in itself. A file of weights needs none of them, so names are checked against
those that it does need, and steps are counted.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from pathlib import Path
from typing import IO

from residua.errors import InputError, first_line, printable
from residua.limits import check

# What tensors, parameters and the settings beside them are rebuilt from. Storages are named by their type of number.
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


def check_zipped_pickle(path: Path, raw: bytes) -> None:
    """Refuse a pickle that needs more than weights do."""
    _check(path, io.BytesIO(raw), 0)


def check_legacy_pickles(path: Path, file: IO[bytes]) -> None:
    """The same of a file from before the zip archives: pickles one after the other, and then the numbers."""
    begins = file.read(len(LEGACY))
    if begins != LEGACY:
        file.seek(0)
        _check(path, file, 0)
        raise _unreadable(path, "it does not begin like one")
    steps = 0
    for _ in range(PICKLES_OF_LEGACY):
        steps = _check(path, file, steps)


def _check(path: Path, file: IO[bytes], steps: int) -> int:
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
        _check_name(path, name)
    return steps


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        f"checkpoint {path} is not a readable PyTorch file ({why}); save the weights as safetensors"
    )


def _check_name(path: Path, name: str | None) -> None:
    if name is None or not ALLOWED.fullmatch(name):
        what = (
            "is damaged or holds more than weights"
            if name is None
            else f"holds more than weights ({printable(name, 80)})"
        )
        raise InputError(
            f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
            "or pass --trust if you trust its maker with everything"
        )
