"""Checkpoints: safetensors with the architecture in the metadata, so that the file alone is enough."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save_file
from torch import Tensor

from residua.errors import InputError, first_line
from residua.files import read_bytes, reading, write_atomically
from residua.limits import check
from residua.models.classifier import Classifier
from residua.models.networks import build
from residua.text import from_json

# One entry for all that is said: safetensors writes several in an order of chance, and equal models have equal files.
KEY, PREPROCESSING = "residua", "preprocessing"


def save(model: Classifier, path: str | Path) -> None:
    """Write weights, architecture and preprocessing to a file, which is whole or absent.

    Args:
        model: The classifier; its architecture must say how to build it.
        path: The .safetensors file.
    """
    if "network" not in model.architecture:
        raise InputError(
            "this model does not say how it is built, so a checkpoint of it could not be read again; "
            "build it with residua.models.networks or set its architecture"
        )
    # Copies, since safetensors takes no two names for one memory.
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.state_dict().items()
    }
    carries = {} if model.preprocessing is None else {PREPROCESSING: model.preprocessing}
    metadata = {KEY: json.dumps(model.architecture | carries, sort_keys=True)}

    def write(part: Path) -> None:
        try:
            save_file(tensors, part, metadata=metadata)
        except SafetensorError as error:
            raise InputError(f"{path} cannot be written ({error}); choose another place") from error

    write_atomically(Path(path), write)


class Checkpoint:
    """A file of weights, read once: weights, header and hash are all of the same bytes.

    Attributes:
        path: The file.
        raw: Its bytes.
        sha256: SHA-256 of its bytes.
        kind: "safetensors", or "pickle" for what `torch.save` wrote.
        architecture: The fields that say how to build the network, where `save` wrote the file; else empty.
        network: The name of the network that the file belongs to, if it says so.
        preprocessing: Shape, mean and std of the model's images, where the file says so, unchecked.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.raw = read_bytes(path, "a .safetensors, .pt or .pth file")
        self.sha256 = hashlib.sha256(self.raw).hexdigest()
        looks = self.path.suffix not in (".pt", ".pth") and self.raw[8:9] == b"{"
        safe = self.path.suffix == ".safetensors" or looks
        self.kind: Literal["safetensors", "pickle"] = "safetensors" if safe else "pickle"
        # The entry of the safetensors header that `save` wrote; None if there is none, or no header that is readable.
        self._words: str | None = None
        header: Any = None
        if self.kind == "safetensors":
            size = int.from_bytes(self.raw[:8], "little")
            check(f"the header of {self.path}", "text", min(size, len(self.raw)))
            with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
                words = from_json(self.raw[8 : 8 + size])["__metadata__"][KEY]
                self._words = words if isinstance(words, str) else None
            with contextlib.suppress(ValueError, RecursionError):
                header = from_json(self._words or "{}")
        self.architecture: dict[str, Any] = header if isinstance(header, dict) else {}
        carried = self.architecture.pop(PREPROCESSING, None)
        self.preprocessing: dict[str, Any] | None = carried if isinstance(carried, dict) else None
        named = self.architecture.get("network")
        self.network: str | None = named if isinstance(named, str) else None

    @classmethod
    def of(cls, file: str | Path | Checkpoint) -> Checkpoint:
        """The checkpoint at a path, or the one that was read already."""
        return file if isinstance(file, Checkpoint) else cls(file)

    def __str__(self) -> str:
        return str(self.path)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a safetensors file. No more is allocated than the file is large."""
        try:
            with reading(self.path):
                return from_safetensors(self.raw)
        except (SafetensorError, KeyError, ValueError) as error:
            raise InputError(
                f"checkpoint {self.path} is not a readable safetensors file ({first_line(error)}); "
                "save the weights as safetensors"
            ) from error

    def classifier(self, *, expect: Mapping[str, Any] | None = None, device: str = "cpu") -> Classifier:
        """The classifier in a file that `save` wrote, in eval mode. Nothing in the file is executed.

        Args:
            expect: Fields of the architecture that the caller relies on ("network", "classes", "channels", ...); a
                checkpoint of another architecture is refused.
            device: The device that the classifier is put on.
        """
        tensors = self.tensors()
        if self._words is None:
            raise InputError(
                f"checkpoint {self.path} does not say which network it belongs to; name it with --network "
                "(in Python, network=), or save it with residua.save"
            )
        if self.network is None:
            raise InputError(f"checkpoint {self.path} has damaged metadata; save it again with residua.save")
        if ":" in self.network:
            raise InputError(
                f"checkpoint {self.path} belongs to the network {self.network}, which is code that is not run on a "
                "file's word; name it with --network (in Python, network=)"
            )
        for field, wanted in (expect or {}).items():
            if self.architecture.get(field) != wanted:
                raise InputError(
                    f"checkpoint {self.path} has {field} {self.architecture.get(field)}, expected {wanted}; "
                    "give the checkpoint that belongs to this data and network"
                )
        try:
            with torch.device("meta"):
                model = build(**self.architecture)
        except InputError as error:
            raise InputError(
                f"checkpoint {self.path} does not say how its network is built ({first_line(error)}); "
                "save it again with residua.save"
            ) from error
        expected = model.state_dict()
        for name in sorted(expected.keys() | tensors.keys()):
            want, have = (tuple(each[name].shape) if name in each else None for each in (expected, tensors))
            if want != have:
                raise InputError(
                    f"checkpoint {self.path} does not fit its network: {name} is {'missing' if have is None else have}, "
                    f"expected {'no such tensor' if want is None else want}; save it again with residua.save"
                )
        for name, tensor in expected.items():
            check_tensor(self.path, name, tensors[name], tensor)
        model.to_empty(device=device)
        model.load_state_dict(tensors)
        model.preprocessing = self.preprocessing
        return model.eval()


def check_tensor(path: Path, name: str, have: Tensor, want: Tensor) -> None:
    """Refuse what is not plain numbers of the kind that the network wants, finite in its own precision."""
    plain = have.layout is torch.strided and have.device.type == "cpu" and not have.is_quantized
    if not plain or have.is_complex() or have.is_floating_point() != want.is_floating_point():
        raise InputError(
            f"checkpoint {path} holds {name} as {have.dtype} {have.layout}, expected {want.dtype}; "
            "save plain floating-point weights"
        )
    if have.numel() * have.element_size() > have.untyped_storage().nbytes():
        raise InputError(
            f"checkpoint {path} does not hold the {have.numel()} numbers that it says {name} has; "
            "save the weights with .contiguous()"
        )
    if want.is_floating_point() and not torch.isfinite(have.to(want.dtype)).all():
        raise InputError(f"checkpoint {path} holds NaN or infinite weights in {name}; train the model again")
