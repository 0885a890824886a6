"""open_model: a classifier from anybody's checkpoint.

A stranger's file is read, never run: safetensors, or what `torch.load(weights_only=True)` accepts. No
memory is filled on the file's word before its names and shapes are those of the network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from residua.adopt import adopt
from residua.checkpoint import load
from residua.classifier import Classifier
from residua.errors import InputError
from residua.networks import NETWORKS
from residua.strangers.building import Network, built, importable_here
from residua.strangers.files import Weights, from_pickle, from_safetensors, is_safetensors, network_named_in
from residua.strangers.fitting import fitted, one_of_ours, same_names

__all__ = ["open_model"]


def open_model(
    path: str | Path,
    network: Network | None = None,
    *,
    cuts: Sequence[str] | None = None,
    trust: bool = False,
    classes: int | None = None,
    channels: int | None = None,
    image: tuple[int, int] | None = None,
    device: str = "cpu",
) -> Classifier:
    """The classifier in this file, in eval mode.

    `network` is needed where the file does not say what it belongs to: a name of
    `residua.networks`, `"package.module:callable"` (the current directory is importable), or the
    callable itself. What it builds goes through `adopt`, with `cuts` where it is not recognised.
    `classes`, `channels` and `image` (height, width) are those of the data; another network is refused.

    `trust=True` opens full pickles. A pickle can run any program in your name when it is opened: use
    it for files whose maker you trust with everything on this machine.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"checkpoint {path} does not exist; give the path of a .safetensors, .pt or .pth file"
        )
    expect = {k: v for k, v in (("classes", classes), ("channels", channels)) if v is not None}
    found: Weights | nn.Module
    if is_safetensors(path):
        if _says_its_network(path, network, cuts):
            return _of_size(path, load(path, expect=expect, device=device), image)
        found = from_safetensors(path)
    else:
        found = from_pickle(path, trust)
    # Whose files lie in this folder nobody knows: they are imported only where their code is asked for.
    asked = trust or (isinstance(network, str) and ":" in network)
    with (
        importable_here() if asked else contextlib.nullcontext(),
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
    ):
        model = _assembled(path, found, network, cuts, classes, channels, image)
    for field, wanted in expect.items():
        if model.architecture.get(field) != wanted:
            raise InputError(
                f"checkpoint {path} has {field} {model.architecture.get(field)}, expected {wanted}; "
                "give the checkpoint and network that belong to this data"
            )
    return _of_size(path, model.to(device), image).eval()


def _says_its_network(path: Path, network: Network | None, cuts: Sequence[str] | None) -> bool:
    """Whether the file bears the name of one of our networks, or nobody gave it another.

    A network of the caller's is for the strangers' among several files; ours need none.
    """
    bears = network_named_in(path)
    if bears not in NETWORKS:
        return network is None
    if network is None or (isinstance(network, str) and network in NETWORKS):
        if network not in (None, bears):
            raise InputError(
                f"checkpoint {path} belongs to the network {bears}, not to {network}; leave out --network or give "
                "the other checkpoint"
            )
        _check_uncut(bears, cuts)
    return True


def _check_uncut(network: str, cuts: Sequence[str] | None) -> None:
    if cuts is not None:
        raise InputError(f"the blocks of {network} are known; leave out the cuts {', '.join(cuts)}")


def _assembled(
    path: Path,
    found: Weights | nn.Module,
    network: Network | None,
    cuts: Sequence[str] | None,
    classes: int | None,
    channels: int | None,
    image: tuple[int, int] | None,
) -> Classifier:
    if network is None:
        if not isinstance(found, nn.Module):
            raise InputError(
                f"checkpoint {path} does not say which network it belongs to; name it with --network "
                "(in Python, network=)"
            )
        return adopt(found, cuts, _example(channels, image))
    weights = found.state_dict() if isinstance(found, nn.Module) else found
    if isinstance(network, str) and network in NETWORKS:
        _check_uncut(network, cuts)
        return one_of_ours(path, network, weights)
    module = built(network, classes, channels)
    example = _example(channels, image)
    if isinstance(module, Classifier) or same_names(weights, module):
        module.load_state_dict(fitted(path, weights, module))
        model = adopt(module, cuts, example)
    else:
        model = adopt(module, cuts, example)
        # A checkpoint of the adopted network has its names, not the stranger's.
        model.load_state_dict(fitted(path, weights, model if same_names(weights, model) else module))
    if "classes" not in model.architecture and example is not None:
        model.architecture |= {"classes": int(model(example).shape[1]), "channels": example.shape[1]}
    if isinstance(network, str):
        model.architecture = {"network": network} | {
            k: v for k, v in model.architecture.items() if k != "adopted"
        }
    return model


def _example(channels: int | None, image: tuple[int, int] | None) -> Tensor | None:
    if channels is None or image is None:
        return None
    return torch.randn(4, channels, *image, generator=torch.Generator().manual_seed(0))


def _of_size(path: Path, model: Classifier, image: tuple[int, int] | None) -> Classifier:
    side = model.architecture.get("image")
    if image is not None and side is not None and image != (side, side):
        raise InputError(
            f"checkpoint {path} takes images of {side} x {side} pixels, but those of the data have "
            f"{image[0]} x {image[1]}; give the checkpoint that belongs to this data"
        )
    return model
