"""Weights by name, `timm:NAME` and `hf:NAME`, which those libraries download and keep."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from residua.errors import InputError, first_line
from residua.files import write_atomically
from residua.text import slug

# Prefix, module, and the extra that installs it.
LIBRARIES = {"timm": "timm", "hf": "transformers"}


def starting_weights(word: str | Path, folder: str | Path) -> Path:
    """The file of starting weights that a word of --init means.

    Args:
        word: A file, or `timm:NAME` or `hf:NAME`: weights that the installed library fetches under this name.
        folder: Folder that weights of a library are written to.
    """
    library, _, name = str(word).partition(":")
    if library not in LIBRARIES or not name:
        return Path(word)
    place = Path(folder) / f"{library}-{slug(name)}.safetensors"
    if place.exists():
        return place
    try:
        module = importlib.import_module(LIBRARIES[library])
    except ImportError as error:
        raise InputError(
            f"--init {word} needs {LIBRARIES[library]}; install residua[{LIBRARIES[library]}]"
        ) from error
    try:
        weights = _fetched(library, module, name).state_dict()
    except Exception as error:  # no such name, no network, no room: the library says which
        raise InputError(
            f"--init {word} cannot be fetched ({first_line(error)}); give a file instead"
        ) from error
    tensors = {
        name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in weights.items()
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, lambda part: save_file(tensors, part))
    return place


def _fetched(library: str, module: Any, name: str) -> torch.nn.Module:
    if library == "timm":
        return module.create_model(name, pretrained=True)
    # safetensors alone: a pickle of the hub is code.
    return module.AutoModelForImageClassification.from_pretrained(name, use_safetensors=True)
