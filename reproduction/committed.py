"""Committed cells: what took hours, as the store of its study has it, in `reproduction/models/`.

`python -m reproduction run NAME --out DIR` copies them into the store, where the study finds them by their keys: nothing
is trained or measured again. `python -m reproduction keep DIR` puts those of a finished or running study there: every cell,
the weights of Originals and Retrains, and of readings the arrays that compact records need. A method whose weights are not
kept is unlearned again if a measure of it is missing. Files are named by their content and keys by their inputs, so that
other data, settings or seeds find nothing.

`python -m reproduction pack DIR OUT` puts the reports of many audits, most of whose text is the same, into one file of records.
"""

from __future__ import annotations

import functools
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from residua.audits.verifying import PACKED, reports_in
from residua.errors import InputError
from residua.files import read_bytes, write_atomically
from residua.report.controls import compact
from residua.study.folder import compact_cell
from residua.study.store import Result, Store, file_of

MODELS = Path(__file__).parent / "models"
MOST = 12_000_000  # bytes of all models
KINDS = ("train", "unlearn", "measure")


def trained(store: Path) -> Iterator[Result]:
    """The cells of Originals and Retrains whose models are in the store."""
    for result in Store(store).results():
        scratch = result.kind == "train" or (result.inputs.get("method") or {}).get("label") == "Retrain"
        if scratch and result.model:
            yield result


def place(out: Path, models: Path = MODELS) -> int:
    """Copy the committed cells into a store; their number.

    Args:
        out: Folder of the store.
        models: Folder of the committed cells.
    """
    return sum(_copy(path, models, out) for path in sorted((models / "cells").glob("*.json")))


def keep(store: Path, models: Path = MODELS) -> int:
    """Copy a store's finished cells to the committed ones; their number.

    Args:
        store: Folder of the store.
        models: Folder of the committed cells.
    """
    weights = {str(result.model) for result in trained(store)}
    if not weights:
        raise InputError(f"{store} has no finished Original or Retrain; give the --out of a study that has")
    files = {path.name: path for path in models.glob("models/*.safetensors")}
    files |= {path.name: path for path in (file_of(store, "models", each) for each in sorted(weights))}
    size = sum(path.stat().st_size for path in files.values())
    if size > MOST:
        raise InputError(
            f"the models of {store} and those in {models} take {size:,} bytes, at most {MOST:,} are committed"
        )
    for each in weights:
        _file(f"models/{each}.safetensors", store, models)
    source, target = Store(store), Store(models)
    new = [
        result
        for result in source.results()
        if result.kind in KINDS and not file_of(models, "cells", result.key).exists()
    ]
    for result in new:
        target.put(*compact_cell(result, source.arrays(result)))
    return len(new)


def pack(folder: Path, out: Path) -> int:
    """Write the reports of a folder into one gzipped file, a line each; their number.

    Args:
        folder: Folder of reports on controls or methods, a file each.
        out: Folder that the packed file goes into.
    """
    reports = reports_in(folder)
    if not reports:
        raise InputError(f"{folder} holds no reports of controls; give the folder of seed*.json")
    text = "".join(f"{compact(each)}\n" for each in reports)
    write_atomically(out / PACKED, lambda part: part.write_bytes(gzip.compress(text.encode(), mtime=0)))
    return len(reports)


def _copy(path: Path, source: Path, target: Path) -> bool:
    """The model and the arrays, then the cell that says that they are there. True where the cell was not there."""
    if (target / "cells" / path.name).exists():
        return False
    body: dict[str, Any] = json.loads(read_bytes(path, "a cell"))
    for part in (
        f"models/{body['values'].get('weights')}.safetensors",
        f"arrays/{body['arrays']}.npz",
        f"cells/{path.name}",
    ):
        if (source / part).exists():
            _file(part, source, target)
    return True


def _file(part: str, source: Path, target: Path) -> None:
    write_atomically(target / part, functools.partial(shutil.copyfile, source / part))
