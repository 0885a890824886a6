"""The weights in a third party's checkpoint, read and never run."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.files import reading
from residua.models.checkpoint import Checkpoint
from residua.models.foreign.building import importable_here, in_short
from residua.models.foreign.pickled import MoreThanWeights, Stored, read

Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")


def weights_in(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The weights in a file of either kind, or the module in a pickle whose maker is trusted."""
    with reading(checkpoint.path):
        if checkpoint.kind == "safetensors":
            return checkpoint.tensors()
        return _from_pickle(checkpoint, trust)


def _from_pickle(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The contents of a file by `torch.save`: read by our own parser, or opened by PyTorch if its maker is trusted."""
    path = checkpoint.path
    if not trust:
        try:
            contents, tensor = read(path, checkpoint.raw)
        except MoreThanWeights as error:
            raise _more_than_weights(path, error.name) from error
        found = _state_dict(path, contents, Stored)
        return {name: tensor(name, stored) for name, stored in found.items()}
    try:
        with warnings.catch_warnings(), importable_here():
            warnings.simplefilter("ignore")
            opened = torch.load(io.BytesIO(checkpoint.raw), map_location="cpu", weights_only=False)
    except Exception as error:  # a pickle can raise anything
        raise InputError(
            f"checkpoint {path} is not a readable PyTorch file ({in_short(error)}); save the weights as safetensors"
        ) from error
    return _state_dict(path, opened, Tensor)


def _state_dict(path: Path, found: Any, kind: type) -> Any:
    """The weights in it, which may lie under `state_dict` or `model` beside other things."""
    for _ in range(3):
        if isinstance(found, nn.Module):
            return found
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(v, kind) and isinstance(k, str) for k, v in found.items()):
            return dict(found)
        found = next((found[k] for k in NESTED if isinstance(found.get(k), Mapping | nn.Module)), None)
    raise InputError(
        f"checkpoint {path} holds no plain tensors by name, also not under {', '.join(NESTED)}; save state_dict() alone"
    )


def _more_than_weights(path: Path, name: str | None) -> InputError:
    what = f"holds more than weights ({name})" if name else "is damaged or holds more than weights"
    return InputError(
        f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
        "or pass --trust if you trust its maker with everything"
    )
