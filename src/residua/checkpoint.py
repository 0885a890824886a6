"""Checkpoints: safetensors with the architecture in the metadata, so that the file alone is enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from residua.classifier import Classifier
from residua.errors import InputError, first_line
from residua.files import write_atomically
from residua.networks import build

KEY = "residua"


def save(model: Classifier, path: str | Path) -> None:
    """Write the weights and how to build the network; the file is whole or absent."""
    if "network" not in model.architecture:
        raise InputError(
            "this model does not say how it is built, so a checkpoint of it could not be read again; "
            "build it with residua.networks or set its architecture"
        )
    # Copies, since safetensors takes no two names for one memory.
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.state_dict().items()
    }
    metadata = {KEY: json.dumps(model.architecture, sort_keys=True)}

    def write(part: Path) -> None:
        try:
            save_file(tensors, part, metadata=metadata)
        except SafetensorError as error:
            raise InputError(f"{path} cannot be written ({error}); choose another place") from error

    write_atomically(Path(path), write)


def load(path: str | Path, *, expect: dict[str, Any] | None = None, device: str = "cpu") -> Classifier:
    """The classifier in this file, in eval mode.

    `expect` names fields of the architecture that the caller relies on ("network", "classes",
    "channels", ...); a checkpoint of another architecture is refused. Nothing in the file is
    executed, and nothing larger than the file is allocated on its word.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"checkpoint {path} does not exist; give the path of a .safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            architecture = _architecture(path, file.metadata())
            for field, wanted in (expect or {}).items():
                if architecture.get(field) != wanted:
                    raise InputError(
                        f"checkpoint {path} has {field} {architecture.get(field)}, expected {wanted}; "
                        "give the checkpoint that belongs to this data and network"
                    )
            model = _built(path, architecture)
            _check_shapes(
                path, model, {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
            )
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} is not a readable safetensors file ({error}); save the weights as safetensors"
        ) from error
    for name, wanted in model.state_dict().items():
        check_tensor(path, name, tensors[name], wanted)
    model.to_empty(device=device)
    model.load_state_dict(tensors)
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


def _architecture(path: Path, metadata: dict[str, str] | None) -> dict[str, Any]:
    try:
        architecture = json.loads((metadata or {})[KEY])
    except KeyError:
        raise InputError(
            f"checkpoint {path} does not say which network it belongs to; name it with --network "
            "(residua.open_model), or save it with residua.save"
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"checkpoint {path} has damaged metadata; save it again with residua.save") from None
    if not isinstance(architecture, dict) or not isinstance(architecture.get("network"), str):
        raise InputError(f"checkpoint {path} has damaged metadata; save it again with residua.save")
    if ":" in architecture["network"]:
        raise InputError(
            f"checkpoint {path} belongs to the network {architecture['network']}, which is code that is not run on a "
            "file's word; name it with --network (residua.open_model)"
        )
    return architecture


def _built(path: Path, architecture: dict[str, Any]) -> Classifier:
    try:
        with torch.device("meta"):
            return build(**architecture)
    except InputError as error:
        raise InputError(
            f"checkpoint {path} does not say how its network is built ({first_line(error)}); save it again with residua.save"
        ) from error


def _check_shapes(path: Path, model: Classifier, found: dict[str, tuple[int, ...]]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise InputError(
                f"checkpoint {path} does not fit its network: {name} is {found.get(name, 'missing')}, "
                f"expected {expected.get(name, 'no such tensor')}; save it again with residua.save"
            )
