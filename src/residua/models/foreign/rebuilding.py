"""Adopted networks in our checkpoints: how they are described, and how they are built again."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.checkpoint import KEY, PREPROCESSING, safetensors_file
from residua.models.classifier import Classifier
from residua.models.foreign.fitting import fitted
from residua.models.foreign.libraries import LIBRARIES, build_listed, described, shapes_without_memory
from residua.models.foreign.weight_files import Weights

CLOSE = 1e-5


def is_listed(network: object) -> bool:
    """Whether this names a network of an installed library, not code of the caller's."""
    return isinstance(network, str) and network.partition(":")[0] in LIBRARIES and "." not in network


def origin(module: nn.Module, batch: Tensor, classes: int) -> dict[str, Any]:
    """Library, name and arguments that build a network which computes what this one computes; else nothing.

    It is built, given the module's weights, and compared in eval and in train mode: dropout that the description
    misses would show.
    """
    try:
        found = described(module, classes, int(batch.shape[1]))
        if found is None:
            return {}
        again = build_listed(found["network"], found["arguments"]).to(batch.device)
        again.load_state_dict(module.state_dict())
    except (InputError, RuntimeError, AttributeError, KeyError, TypeError):
        return {}
    for training in (False, True):
        outputs = []
        for net in (copy.deepcopy(module), again):
            torch.manual_seed(0)
            with torch.no_grad():
                output = net.train(training)(batch)
            outputs.append(getattr(output, "logits", output))
        apart = (outputs[0] - outputs[1]).abs().max() / outputs[0].abs().max().clamp_min(1.0)
        if not float(apart) <= CLOSE:
            return {}
    return found


def architecture_in(path: Path) -> dict[str, Any]:
    """What a checkpoint of ours says of its network; empty for other files."""
    try:
        with safe_open(safetensors_file(path), framework="pt") as file:
            found = json.loads((file.metadata() or {}).get(KEY, "{}"))
    except (SafetensorError, ValueError, RecursionError):  # whoever reads the weights next says why
        return {}
    if not isinstance(found, dict):
        return {}
    found.pop(PREPROCESSING, None)
    return found


def rebuilt(path: Path, architecture: dict[str, Any], weights: Weights, adopt: Any) -> Classifier:
    """The adopted network of this checkpoint, with its weights under the names that adopting gives them."""
    network, arguments = architecture["network"], architecture.get("arguments", {})
    shape: Any = architecture.get("input")
    cuts: Any = architecture.get("cuts")
    sound = isinstance(arguments, dict) and _is_shape(shape) and (cuts is None or _are_names(cuts))
    if not sound:
        raise InputError(
            f"checkpoint {path} does not say how its network is built; save it again with residua.save"
        )
    wanted = shapes_without_memory(network, arguments)
    held = sum(tensor.numel() for tensor in weights.values())
    if wanted is not None and sum(map(math.prod, wanted.values())) > 2 * held + 1_000_000:
        raise InputError(
            f"checkpoint {path} names a network that is far larger than its weights; save it again with residua.save"
        )
    example = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    model: Classifier = adopt(build_listed(network, arguments), cuts, example, architecture)
    model.load_state_dict(fitted(path, weights, model))
    return model


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) in (1, 3)
        and all(isinstance(n, int) and 0 < n <= 4096 for n in shape)
        and math.prod(shape) <= 1 << 24
    )


def _are_names(cuts: object) -> bool:
    return isinstance(cuts, list) and bool(cuts) and all(isinstance(name, str) for name in cuts)
