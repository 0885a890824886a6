"""Assignment of a file's tensors to those of a network, by name and shape."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residua.errors import InputError
from residua.models.checkpoint import check_tensor
from residua.models.classifier import Classifier
from residua.models.foreign.weight_files import Weights
from residua.models.networks import VARIANTS, build

PREFIXES = ("module.", "_orig_mod.", "model.")


def _names(weights: Weights) -> Iterator[Weights]:
    """The weights as they are named, then without what others put before every name."""
    yield weights
    for _ in range(3):
        prefix = next((p for p in PREFIXES if all(name.startswith(p) for name in weights)), None)
        if prefix is None:
            return
        weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
        yield weights


def _counts(name: str) -> bool:
    """BatchNorm's counter, which older files lack and which no output depends on."""
    return name.endswith("num_batches_tracked")


def same_names(weights: Weights, module: nn.Module) -> bool:
    expected = {name for name in module.state_dict() if not _counts(name)}
    return any({name for name in form if not _counts(name)} == expected for form in _names(weights))


def fitted(path: Path, weights: Weights, module: nn.Module) -> Weights:
    """The weights under the module's names; other names, shapes or kinds, and NaN, are refused."""
    expected = module.state_dict()
    for form in _names(weights):
        if form.keys() & expected.keys():
            break
    for name in sorted(expected.keys() | form.keys()):
        if _counts(name) and name not in form:
            continue
        have, want = form.get(name), expected.get(name)
        if have is None or want is None or have.shape != want.shape:
            raise InputError(
                f"checkpoint {path} does not fit its network: {name} is "
                f"{'missing' if have is None else tuple(have.shape)}, expected "
                f"{'no such tensor' if want is None else tuple(want.shape)}; give the network that it belongs to"
            )
        check_tensor(path, name, have, want)
    counters = {name: tensor for name, tensor in expected.items() if _counts(name) and name not in form}
    return dict(form) | {name: torch.zeros((), dtype=tensor.dtype) for name, tensor in counters.items()}


# Stems whose weights have the same shapes, by the width of the first kernel.
STEMS = {3: ("cifar", "cifar-pool"), 7: ("imagenet", "imagenet-no-pool")}


def one_of_ours(path: Path, network: str, weights: Weights, stem: str | None = None) -> Classifier:
    """One of our networks, in the size that the shapes of its weights show.

    They do not show whether a ResNet's stem pools: `stem` chooses, and the model's notes say what was taken.
    """
    for form in _names(weights):
        named = {_our_name(network, name): tensor for name, tensor in form.items()}
        fields = _fields(network, {name: tuple(t.shape) for name, t in named.items()})
        if fields:
            break
    else:
        raise InputError(
            f"checkpoint {path} does not hold the weights of a {network}; give its own network as module:callable"
        )
    notes: tuple[str, ...] = ()
    if network != "vit":
        fields["stem"], notes = _chosen_stem(path, network, int(fields.pop("kernel")), stem)
    with torch.device("meta"):
        model = build(network, **fields)
    model.notes = notes
    own = fitted(path, named, model)
    model.to_empty(device="cpu")
    model.load_state_dict(own)
    return model


def _chosen_stem(path: Path, network: str, kernel: int, stem: str | None) -> tuple[str, tuple[str, ...]]:
    stems = STEMS.get(kernel)
    if stems is None or (stem is not None and stem not in stems):
        raise InputError(
            f"checkpoint {path} has a first kernel of {kernel} x {kernel}, expected 3 or 7"
            + (f" for the stem {stem!r}" if stem else "")
            + f"; choose {' or '.join(stems or STEMS[3])}, or give its own network as module:callable"
        )
    if stem is not None:
        return stem, ()
    taken, other = stems
    what = {"cifar": "stride 1 and no max-pooling", "imagenet": "stride 2 and a max-pooling"}[taken]
    return taken, (
        f"{path}: the weights do not show stride and pooling of the stem; taken as {kernel} x {kernel} with {what}. "
        f"For the other, give --network {network},stem={other}",
    )


def _our_name(network: str, name: str) -> str:
    """torchvision's names for a ResNet's weights, which most implementations follow, become ours."""
    if network == "vit":
        return name
    name = re.sub(r"^conv1\.", "blocks.0.0.", re.sub(r"^bn1\.", "blocks.0.1.", name))
    name = re.sub(r"^(fc|linear)\.", "head.", name)
    found = re.match(r"^layer([1-4])\.(\d+)\.(.*)$", name)
    if not found:
        return name
    stage, unit, rest = int(found[1]), int(found[2]), found[3]
    if network == "resnet50":  # whose third stage is two blocks of three units
        late = stage == 3 and unit >= 3
        stage, unit = stage + (late or stage == 4), unit - 3 * late
    rest = re.sub(r"^bn(\d)\.", r"norm\1.", re.sub(r"^downsample\.", "shortcut.", rest))
    return f"blocks.{stage}.{unit}.{rest}"


def _fields(network: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The arguments of our network of this name that has such weights, or nothing."""
    try:
        classes = shapes["head.weight"][0]
        if network == "vit":
            dim, channels, patch, _ = shapes["blocks.0.0.project.weight"]
            variant = {width: name for name, (width, _) in VARIANTS.items()}[dim]
            side = math.isqrt(shapes["blocks.0.0.position"][1] - 1)
            return {
                "variant": variant,
                "classes": classes,
                "channels": channels,
                "image": side * patch,
                "patch": patch,
            }
        width, channels, kernel, _ = shapes["blocks.0.0.weight"]
    except (KeyError, ValueError, IndexError):
        return {}
    return {"classes": classes, "channels": channels, "width": width, "kernel": kernel}
