"""load: a classifier from a checkpoint, ours or anybody's.

A third party's file is read, never run: safetensors, or the weights that `torch.save` wrote. No memory is filled on
the file's word before its names and shapes are those of the network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.files import reading, regular_file
from residua.models.checkpoint import preprocessing_in, read_checkpoint
from residua.models.classifier import Classifier
from residua.models.foreign.adopting import adopt, adopt_as
from residua.models.foreign.fitting import fitted, one_of_ours, same_names
from residua.models.foreign.libraries import build_listed, from_words
from residua.models.foreign.own_code import Network, built, importable_here
from residua.models.foreign.rebuilding import architecture_in, is_listed, rebuilt
from residua.models.foreign.weight_files import (
    Weights,
    from_pickle,
    from_safetensors,
    is_safetensors,
    network_named_in,
)
from residua.models.networks import NETWORKS

__all__ = ["load", "open_model", "with_stem"]


def load(
    path: str | Path,
    network: Network | None = None,
    *,
    cuts: Sequence[str] | None = None,
    trust: bool = False,
    classes: int | None = None,
    channels: int | None = None,
    image: tuple[int, int] | None = None,
    expect: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Classifier:
    """The classifier in this file, in eval mode.

    `network` is needed if the file does not name its architecture: a name of `residua.models.NETWORKS`,
    `"package.module:callable"` (the current directory is importable), or the callable itself. What it builds goes
    through `adopt`, with `cuts` if it is not recognised. `classes`, `channels` and `image` (height, width) are those
    of the data, and `expect` has other fields of the architecture ("network", "width", ...): a checkpoint of another
    network is refused.

    `trust=True` opens full pickles. A pickle can run any program in your name when it is opened: use it only for
    files whose maker you trust with everything on this machine.
    """
    path = regular_file(path, "a .safetensors, .pt or .pth file")
    network, stem = with_stem(network)
    required = {k: v for k, v in (("classes", classes), ("channels", channels)) if v is not None} | dict(
        expect or {}
    )
    with reading(path):
        architecture = architecture_in(path) if is_safetensors(path) else {}
        listed = is_listed(architecture.get("network")) and network is None and cuts is None
        if is_safetensors(path) and not listed and _names_its_network(path, network, cuts):
            return _of_size(path, read_checkpoint(path, expect=required, device=device), image)
        contents = from_safetensors(path) if is_safetensors(path) else from_pickle(path, trust)
    # Anybody may have put files into this folder: they are imported only if the caller asks for code in them.
    own_code = trust or (isinstance(network, str) and ":" in network)
    with (
        importable_here() if own_code else contextlib.nullcontext(),
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
    ):
        if listed and isinstance(contents, dict):
            model = rebuilt(path, architecture, contents, adopt_as)
        else:
            model = _assembled(path, contents, network, stem, cuts, classes, channels, image)
    for field, expected in required.items():
        if model.architecture.get(field) != expected:
            raise InputError(
                f"checkpoint {path} has {field} {model.architecture.get(field)}, expected {expected}; "
                "give the checkpoint and network that belong to this data"
            )
    model.preprocessing = preprocessing_in(path)
    return _of_size(path, model.to(device), image).eval()


open_model = load


def _names_its_network(path: Path, network: Network | None, cuts: Sequence[str] | None) -> bool:
    """Whether the file names one of our networks, or the caller named no other.

    A network of the caller's is for the third-party files among several; ours need none.
    """
    named = network_named_in(path)
    if named not in NETWORKS:
        return network is None
    if network is None or (isinstance(network, str) and network in NETWORKS):
        if network not in (None, named):
            raise InputError(
                f"checkpoint {path} belongs to the network {named}, not to {network}; leave out --network or give "
                "the other checkpoint"
            )
        _check_uncut(named, cuts)
    return True


@overload
def with_stem(network: str) -> tuple[str, str | None]: ...
@overload
def with_stem(network: Network | None) -> tuple[Network | None, str | None]: ...
def with_stem(network: Network | None) -> tuple[Network | None, str | None]:
    """`resnet18,stem=cifar-pool` as the network and its stem; other words as they are."""
    if not isinstance(network, str) or "," not in network or network.partition(",")[0] not in NETWORKS:
        return network, None
    name, _, setting = network.partition(",")
    key, _, value = setting.partition("=")
    if key.strip() != "stem" or not value or name == "vit":
        raise InputError(f"network {network!r} is not understood; write {name}, or {name},stem=cifar-pool")
    return name, value.strip()


def _check_uncut(network: str, cuts: Sequence[str] | None) -> None:
    if cuts is not None:
        raise InputError(f"the blocks of {network} are known; leave out the cuts {', '.join(cuts)}")


def _assembled(
    path: Path,
    contents: Weights | nn.Module,
    network: Network | None,
    stem: str | None,
    cuts: Sequence[str] | None,
    classes: int | None,
    channels: int | None,
    image: tuple[int, int] | None,
) -> Classifier:
    if network is None:
        if not isinstance(contents, nn.Module):
            raise InputError(
                f"checkpoint {path} does not say which network it belongs to; name it with --network "
                "(in Python, network=)"
            )
        return adopt(contents, cuts, _example(channels, image))
    weights = contents.state_dict() if isinstance(contents, nn.Module) else contents
    if isinstance(network, str) and network in NETWORKS:
        _check_uncut(network, cuts)
        return one_of_ours(path, network, weights, stem)
    words = from_words(network, classes, channels) if isinstance(network, str) else None
    module = build_listed(**words) if words else built(network, classes, channels)
    example = _example(channels, image)
    if isinstance(module, Classifier) or same_names(weights, module):
        module.load_state_dict(fitted(path, weights, module))
        model = adopt_as(module, cuts, example, words)
    else:
        model = adopt_as(module, cuts, example, words)
        # A checkpoint of the adopted network has the adopted names, not those of the caller's module.
        model.load_state_dict(fitted(path, weights, model if same_names(weights, model) else module))
    if "classes" not in model.architecture and example is not None:
        model.architecture |= {"classes": int(model(example).shape[1]), "channels": example.shape[1]}
    if isinstance(network, str) and "network" not in model.architecture:
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
