"""Checkpoints: safetensors with the architecture in the metadata, so that the file alone is enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from residua.errors import InputError, first_line
from residua.files import open_regular, reading, regular_file, write_atomically
from residua.limits import check
from residua.models.classifier import Classifier
from residua.models.networks import build

# One entry for all that is said: safetensors writes several in an order of chance, and equal models have equal files.
KEY, PREPROCESSING = "residua", "preprocessing"


def save(model: Classifier, path: str | Path) -> None:
    """Write the weights and how to build the network; the file is whole or absent."""
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


def read_checkpoint(
    path: str | Path, *, expect: dict[str, Any] | None = None, device: str = "cpu"
) -> Classifier:
    """The classifier in this file, in eval mode.

    `expect` names fields of the architecture that the caller relies on ("network", "classes",
    "channels", ...); a checkpoint of another architecture is refused. Nothing in the file is
    executed, and nothing larger than the file is allocated on its word.
    """
    path = safetensors_file(path)
    try:
        with reading(path), safe_open(path, framework="pt") as file:
            architecture = _architecture(path, file.metadata())
            preprocessing = carried(file.metadata())
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
            f"checkpoint {path} is not a readable safetensors file ({first_line(error)}); save the weights as safetensors"
        ) from error
    for name, wanted in model.state_dict().items():
        check_tensor(path, name, tensors[name], wanted)
    model.to_empty(device=device)
    model.load_state_dict(tensors)
    model.preprocessing = preprocessing
    return model.eval()


def carried(metadata: dict[str, str] | None) -> dict[str, Any] | None:
    """Shape, mean and std of the model's images, where the file says so; whoever uses them checks them."""
    try:
        facts = json.loads((metadata or {}).get(KEY, "null"))
    except (ValueError, RecursionError):
        return None
    preprocessing = facts.get(PREPROCESSING) if isinstance(facts, dict) else None
    return preprocessing if isinstance(preprocessing, dict) else None


def preprocessing_in(path: str | Path) -> dict[str, Any] | None:
    """What a checkpoint says of its model's images, without reading the weights; None for files of other kinds."""
    path = Path(path)
    if path.suffix != ".safetensors" or not path.is_file():
        return None
    try:
        with safe_open(safetensors_file(path), framework="pt") as file:
            return carried(file.metadata())
    except SafetensorError:
        return None


load = read_checkpoint


def safetensors_file(path: str | Path) -> Path:
    """`path`, a regular file whose header and size are within the limits."""
    path = regular_file(path, "a checkpoint")
    size = path.stat().st_size
    check(path, "memory", size)
    with open_regular(path) as file:
        check(f"the header of {path}", "text", min(int.from_bytes(file.read(8), "little"), size))
    return path


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
            "(in Python, network=), or save it with residua.save"
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"checkpoint {path} has damaged metadata; save it again with residua.save") from None
    if not isinstance(architecture, dict) or not isinstance(architecture.get("network"), str):
        raise InputError(f"checkpoint {path} has damaged metadata; save it again with residua.save")
    architecture.pop(PREPROCESSING, None)
    if ":" in architecture["network"]:
        raise InputError(
            f"checkpoint {path} belongs to the network {architecture['network']}, which is code that is not run on a "
            "file's word; name it with --network (in Python, network=)"
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
