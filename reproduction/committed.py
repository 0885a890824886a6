"""Committed models: Originals and Retrains that took hours, as the store of their study has them, in `reproduction/models/`.

`python -m reproduction run NAME --out DIR` copies them into the store, where the study finds them by their keys and trains
nothing again. `python -m reproduction keep DIR` puts those of a finished or running study there. Files are named by their
content and keys by their inputs, so that other data, settings or seeds find nothing.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from residua.errors import InputError
from residua.files import read_bytes, write_atomically

MODELS = Path(__file__).parent / "models"
MOST = 12_000_000  # bytes of all files


def trained(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The cells of Originals and Retrains whose models are in the store."""
    for path in sorted((store / "cells").glob("*.json")):
        body = json.loads(read_bytes(path, "a cell"))
        inputs = body.get("inputs", {})
        scratch = body.get("kind") == "train" or (inputs.get("method") or {}).get("label") == "Retrain"
        if scratch and body.get("values", {}).get("kept"):
            yield path, body


def place(out: Path, models: Path = MODELS) -> int:
    """Copy the committed models into a store; their number.

    Args:
        out: Folder of the store.
        models: Folder of the committed models.
    """
    return sum(_copy(path, body, models, out) for path, body in trained(models))


def keep(store: Path, models: Path = MODELS) -> int:
    """Copy a store's Originals and Retrains to the committed models; their number.

    Args:
        store: Folder of the store.
        models: Folder of the committed models.
    """
    found = list(trained(store))
    if not found:
        raise InputError(f"{store} has no finished Original or Retrain; give the --out of a study that has")
    files = {store / "models" / f"{body['values']['weights']}.safetensors" for _, body in found}
    size = sum(path.stat().st_size for path in {*files, *models.glob("models/*.safetensors")})
    if size > MOST:
        raise InputError(
            f"the models of {store} and those in {models} take {size:,} bytes, at most {MOST:,} are committed"
        )
    return sum(_copy(path, body, store, models) for path, body in found)


def _copy(path: Path, body: dict[str, Any], source: Path, target: Path) -> bool:
    """The model, then the cell that says that it is there. True where the cell was not there."""
    if (target / "cells" / path.name).exists():
        return False
    for part in (f"models/{body['values']['weights']}.safetensors", f"cells/{path.name}"):
        write_atomically(target / part, functools.partial(shutil.copyfile, source / part))
    return True
